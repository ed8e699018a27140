"""What is wrong with the settings, in one line that says where, what and what was expected."""


class SettingsError(Exception):
    """A file, variable or flag cannot be used; the message starts with its name."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem
