"""A file of API keys that a test makes and takes back, as `everbrook apikey` does."""

import time
from pathlib import Path

from everbrook.server.auth.api_keys import ApiKeyFile, format_file, make_key


class Keyring:
    """Keys by what they may do: `keyring.give("read:/v1/stream/a")` is an `Authorization` header."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "api-keys.json"
        self._file = ApiKeyFile()
        self._write()

    def _write(self) -> None:
        written = self.path.with_suffix(".new")
        written.write_bytes(format_file(self._file))
        written.replace(self.path)

    def give(self, scopes: str, lifetime_secs: float | None = None) -> str:
        """Make a key and give the header that shows it."""
        now = time.time()
        key, stored = make_key(scopes, int(now), None if lifetime_secs is None else int(now + lifetime_secs))
        self._file = self._file.add(stored)
        self._write()
        return f"Bearer {key}"

    def revoke(self, authorization: str) -> None:
        """Take a key back."""
        self._file = self._file.remove(authorization.split("_")[1])
        self._write()
