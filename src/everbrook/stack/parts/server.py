"""The server: `everbrook serve`, with its store in the data folder of the stack."""

import subprocess
from http.client import HTTPException
from typing import ClassVar
from urllib.error import URLError
from urllib.request import urlopen

from everbrook.stack.parts.part import WRONG_USE, Part
from everbrook.stack.postgres import require_free
from everbrook.stack.preparing import make_streams


class Server(Part):
    name: ClassVar = "server"
    summary: ClassVar = "streams at a URL"
    hopeless_codes: ClassVar = WRONG_USE

    @property
    def url(self) -> str:
        return self.site.server_url

    @property
    def hint(self) -> str:
        """Say where to look at the streams, unless the settings say that there is no page."""
        return f"the web page is {self.url}/ui/" if answers(self.url, "/ui/") else ""

    def check(self) -> None:
        """Refuse a port that is taken."""
        require_free(self.site.host, self.site.server_port, "the server")

    def start(self) -> subprocess.Popen[bytes]:
        """Start it with the settings of the folder and the environment, except for what the stack decides."""
        address = ("--host", self.site.host, "--port", str(self.site.server_port))
        return self.everbrook("serve", *address, "--data-dir", str(self.site.data_dir / "streams"))

    def ready(self) -> bool:
        """Ask for its health, and make the streams."""
        if not answers(self.url):
            return False
        make_streams(self.url)
        return True


def answers(server_url: str, path: str = "/healthz") -> bool:
    """Say whether a server is there and well, or has something at another path."""
    try:
        with urlopen(f"{server_url}{path}", timeout=2) as answer:  # noqa: S310 - the scheme is ours
            return bool(answer.status == 200)  # noqa: PLR2004
    except (URLError, HTTPException, OSError):
        return False
