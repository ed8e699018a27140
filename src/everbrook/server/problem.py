"""Problem documents: every refusal as `application/problem+json` (RFC 9457) with a stable `code`."""

from http import HTTPStatus

import msgspec
from msgspec import Struct

from everbrook.protocol.errors import ProtocolError
from everbrook.server.exchange import Response

_json = msgspec.json.Encoder()


class Problem(Struct, frozen=True, omit_defaults=True):
    """What went wrong, for a program (`code`) and for a person (`detail`)."""

    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""


def problem_response(error: ProtocolError, common: bytes, rests_on: int = 0, request_id: str = "") -> Response:
    """Render a refusal with the headers it carries."""
    problem = Problem(HTTPStatus(error.status).phrase, error.status, error.code, error.detail, request_id)
    own = b"".join(b"%b: %b\r\n" % header for header in error.headers)
    headers = b"%bContent-Type: application/problem+json\r\nCache-Control: no-store\r\n%b" % (common, own)
    return Response(error.status, headers, _json.encode(problem), rests_on, code=error.code)
