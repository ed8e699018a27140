"""The quota of a bucket: `/ds/{bucket}/__ds/quota`, for whoever runs the server."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from everbrook.engine.engine import Engine
from everbrook.engine.quotas import Quota
from everbrook.protocol.errors import InvalidRequest
from everbrook.server.exchange import Request, Response
from everbrook.server.render import json_response, no_content
from everbrook.server.routes import Route

Bound = Annotated[int, Meta(ge=0, le=2**53)]


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A quota as it is sent. What is not said is as the settings say."""

    max_bytes: Bound | None = None
    max_streams: Bound | None = None


_wanted = msgspec.json.Decoder(Wanted)


class QuotaResource:
    """What can be done to a bucket's quota."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self, _request: Request, common: bytes, route: Route) -> Response:
        """GET: what was set."""
        return self._tell(common, self._engine.buckets.quota(route.bucket_id or b""))

    def set(self, request: Request, common: bytes, route: Route) -> Response:
        """PUT: a quota in the place of the one that was."""
        try:
            wanted = _wanted.decode(request.body)
        except msgspec.DecodeError as error:
            raise InvalidRequest(
                f"a quota is a JSON object with max_bytes and max_streams, or one of them: {error}"
            ) from None
        quota = Quota(wanted.max_bytes, wanted.max_streams)
        self._engine.buckets.set_quota(route.bucket_id or b"", quota)
        return self._tell(common, quota)

    def unset(self, _request: Request, common: bytes, route: Route) -> Response:
        """DELETE: from now on it is as the settings say. The quota of a bucket that is gone can be taken back too."""
        self._engine.buckets.unset_quota(route.bucket_id or b"")
        return no_content(common, self._engine.last_change)

    def _tell(self, common: bytes, quota: Quota) -> Response:
        return json_response(200, common, msgspec.json.encode(quota), self._engine.last_change)
