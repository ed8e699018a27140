"""What holds for every test: a property is judged by its examples, not by how long the machine takes for one."""

from hypothesis import settings

settings.register_profile("everbrook", deadline=None)
settings.load_profile("everbrook")
