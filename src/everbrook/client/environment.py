"""Where a client finds its server if its caller does not say: as the environment says, else on this machine.

The command line reads this before anything else, so nothing slow to load is imported here.
"""

import os

DEFAULT_URL = "http://127.0.0.1:4437"
URL = "EVERBROOK_URL"
TOKEN = "EVERBROOK_TOKEN"  # noqa: S105 - the name of a variable


def server_url(given: str | None, *variables: str, default: str = DEFAULT_URL) -> str:
    """Return the URL of the server: the given one, else that of the environment, else the default.

    Of the `variables` the first that is set counts, and `EVERBROOK_URL` after them.
    """
    named = (os.environ.get(variable) for variable in (*variables, URL))
    return given or next(filter(None, named), default)
