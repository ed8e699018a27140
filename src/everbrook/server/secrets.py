"""The server's secrets: its webhook signing keys and the secret of its tokens, kept like streams are (§6.5, §12.9).

They are made when a store is first used, and survive with it: what was signed or issued before a restart stays good.
"""

import secrets
from base64 import b64decode, b64encode

import msgspec
from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.engine.records import SECRET_RECORDS
from everbrook.protocol.commands import Append, Create
from everbrook.protocol.content_type import JSON
from everbrook.server.webhooks.signing import KEY_BYTES, KeyRing, SigningKey
from everbrook.server.webhooks.tokens import SECRET_BYTES, Tokens

RECORD = SECRET_RECORDS + b"webhooks"


class Stored(Struct):
    """The secrets as they are stored."""

    ring: msgspec.Raw
    token_secret: str


class Secrets:
    """Signs and issues. The last record of its stream is what holds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        stored = self._load()
        if stored is None:
            self._token_secret = secrets.token_bytes(SECRET_BYTES)
            self.ring = KeyRing(SigningKey(secrets.token_bytes(KEY_BYTES)))
            engine.execute(
                Create(RECORD, engine.clock.now(), engine.new_incarnation(), JSON, body=self._encode(self.ring))
            )
        else:
            self._token_secret = b64decode(stored.token_secret)
            self.ring = KeyRing.decode(bytes(stored.ring))
        self.tokens = Tokens(self._token_secret)

    def _load(self) -> Stored | None:
        last = None
        for body in self._engine.readers.read_all(RECORD):
            last = msgspec.json.decode(body, type=list[Stored])[-1]
        return last

    def _encode(self, ring: KeyRing) -> bytes:
        return msgspec.json.encode(Stored(msgspec.Raw(ring.encode()), b64encode(self._token_secret).decode()))

    def rotate(self, keep_secs: int) -> str:
        """Sign with a new key as soon as it is durable. Gives its name."""
        engine, now = self._engine, self._engine.clock.now()
        ring = self.ring.rotate(now // 1000, secrets.token_bytes(KEY_BYTES), keep_secs)
        engine.execute(Append(RECORD, now, JSON, self._encode(ring)))
        engine.when_durable(engine.last_change, lambda failure: None if failure else self._take(ring))
        return ring.active.kid

    def _take(self, ring: KeyRing) -> None:
        self.ring = ring
