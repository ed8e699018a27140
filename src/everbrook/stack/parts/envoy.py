"""Envoy: the proxy in front of the server, which lets nobody through without a token.

The tokens are of a key that is made on the first start: `everbrook token` signs with it. The server itself asks nobody
for anything, as it is reached from this machine only; whoever else is to reach it goes through here.
"""

import subprocess
from http.client import HTTPException
from shlex import quote
from typing import ClassVar
from urllib.error import URLError
from urllib.request import urlopen

from everbrook.server.auth.key_pair import PUBLIC_FILE, load_or_make_pair
from everbrook.stack import children
from everbrook.stack.envoy.config import Edge, format_config
from everbrook.stack.envoy.program import find_envoy
from everbrook.stack.errors import DataUnusable
from everbrook.stack.parts.part import Part
from everbrook.stack.postgres import HOST, require_free
from everbrook.stack.site import STACK_DIR, Site


class Envoy(Part):
    name: ClassVar = "envoy"
    needs: ClassVar = ("server",)
    summary: ClassVar = "the server, for those who have a token"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._keys = site.data_dir / "keys"
        self._edge = Edge(
            server_url=site.server_url,
            port=site.envoy_port,
            admin_port=site.envoy_admin_port,
            jwks=str(self._keys / PUBLIC_FILE),
            host=site.envoy_host,
            **site.edge,
        )

    @property
    def url(self) -> str:
        return self._edge.url

    @property
    def hint(self) -> str:
        """Say how to get a token."""
        default = (self.site.data_dir.parent.name, self.site.data_dir.name) == STACK_DIR.parts
        keys = "" if default else f" --keys {quote(str(self._keys))}"
        return f"a token for {self.url}: everbrook token --sub NAME{keys}"

    def check(self) -> None:
        """Refuse ports that are taken, and a machine without Envoy."""
        require_free(self.site.envoy_host, self.site.envoy_port, "Envoy")
        require_free(HOST, self.site.envoy_admin_port, "the dashboard of Envoy")
        find_envoy()

    def start(self) -> subprocess.Popen[bytes]:
        """Write down what it is told, and start it."""
        file = self.site.data_dir / "envoy.yaml"
        try:
            load_or_make_pair(self._keys)
            file.write_text(format_config(self._edge), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise DataUnusable(f"Envoy can't be told what to do: {error}") from error
        command = [find_envoy(), "--config-path", str(file), "--disable-hot-restart", "--log-level", "warning"]
        with self.log.open("ab") as log:
            return children.start(command, environment=self.site.variables(), output=log, ending=self.stop_signal)

    def ready(self) -> bool:
        """Ask it whether it listens."""
        try:
            with urlopen(f"http://{HOST}:{self.site.envoy_admin_port}/ready", timeout=2) as answer:
                return bool(answer.status == 200)  # noqa: PLR2004
        except (URLError, HTTPException, OSError):
            return False
