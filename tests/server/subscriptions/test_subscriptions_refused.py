"""What subscriptions refuse: bodies, URLs, methods, places that lead nowhere (§6, §12.8)."""

import pytest

from tests.kit.servers import StartEither
from tests.kit.subscriber import Api, document, fresh, refusal

HOOK = {"url": "https://worker.example/hooks"}
WEBHOOK = {"type": "webhook", "webhook": HOOK, "pattern": "events/*"}
PULL = {"type": "pull-wake", "wake_stream": "wake", "pattern": "events/*"}

CONFIGS: dict[str, object] = {
    "nothing": b"",
    "no JSON": b"{nope",
    "cut": b'{"type": "webhook"',
    "a list": [],
    "null": None,
    "no UTF-8": b'{"type": "\xff"}',
    "deep": b"[" * 100_000,
    "deep in what is passed over": b'{"type":"webhook","other":' + b"[" * 100_000,
    "no type": {"pattern": "a"},
    "another type": WEBHOOK | {"type": "push"},
    "no streams": {"type": "webhook", "webhook": HOOK},
    "empty streams": {"type": "webhook", "webhook": HOOK, "streams": []},
    "empty pattern": WEBHOOK | {"pattern": ""},
    "only slashes": WEBHOOK | {"pattern": "//"},
    "empty segment": WEBHOOK | {"pattern": "a//b"},
    "long pattern": WEBHOOK | {"pattern": "a" * 401},
    "pattern of a number": WEBHOOK | {"pattern": 7},
    "streams of numbers": WEBHOOK | {"streams": [7]},
    "stream with dots": WEBHOOK | {"streams": ["a/../b"]},
    "empty stream": WEBHOOK | {"streams": [""]},
    "reserved stream": WEBHOOK | {"streams": ["__ds/subscriptions/x"]},
    "no webhook": {"type": "webhook", "pattern": "a"},
    "no url": WEBHOOK | {"webhook": {}},
    "empty url": WEBHOOK | {"webhook": {"url": ""}},
    "no wake stream": {"type": "pull-wake", "pattern": "a"},
    "empty wake stream": PULL | {"wake_stream": ""},
    "bad wake stream": PULL | {"wake_stream": "a//b"},
    "own wake stream": PULL | {"streams": ["wake"]},
    "short lease": WEBHOOK | {"lease_ttl_ms": 999},
    "long lease": WEBHOOK | {"lease_ttl_ms": 600_001},
    "lease of text": WEBHOOK | {"lease_ttl_ms": "1000"},
    "broken lease": WEBHOOK | {"lease_ttl_ms": 1000.5},
    "huge lease": b'{"type":"pull-wake","wake_stream":"w","pattern":"a","lease_ttl_ms":1e400}',
    "description of a number": WEBHOOK | {"description": 1},
    "long description": WEBHOOK | {"description": "d" * 1001},
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_is_no_configuration_is_a_400(api: Api, config: object) -> None:
    """§6.2."""
    name = fresh()
    assert refusal(api.send("PUT", name, config)) == (400, "INVALID_REQUEST")
    assert api.send("GET", name).status == 404


@pytest.mark.parametrize("lease_ttl_ms", [1000, 600_000])
def test_a_lease_is_from_a_second_to_ten_minutes(api: Api, lease_ttl_ms: int) -> None:
    """§6.2."""
    assert api.send("PUT", fresh(), PULL | {"lease_ttl_ms": lease_ttl_ms}).status == 201


URLS = [
    "http://worker.example/hooks",
    "ftp://worker.example/",
    "worker.example/hooks",
    "https://10.0.0.1/",
    "https://192.168.1.1/",
    "https://172.16.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://127.0.0.1/",
    "https://localhost/",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[fd00::1]/",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://user:secret@worker.example/",
    "https://worker.example/#fragment",
    "http://10.0.0.1/",
    "http://127.0.0.1.nip.io/",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_into_the_network_of_the_server_is_refused(api: Api, url: str) -> None:
    """§6.2, §12.8."""
    answer = api.send("PUT", fresh(), WEBHOOK | {"webhook": {"url": url}})
    assert refusal(answer) == (400, "WEBHOOK_URL_REJECTED")
    assert b"secret" not in answer.body


LOOPBACK = ["http://localhost:9/", "http://127.0.0.1:9/", "http://127.0.0.5:9/", "http://[::1]:9/"]


@pytest.mark.parametrize("url", LOOPBACK)
def test_this_machine_is_allowed_by_a_setting(api: Api, url: str) -> None:
    """§6.2: for development."""
    assert api.send("PUT", fresh(), WEBHOOK | {"webhook": {"url": url}}).status == 201


def test_this_machine_is_refused_without_the_setting(start_either: StartEither) -> None:
    """§6.2: like everything else that is not public."""
    with start_either().connect() as wire:
        for url in LOOPBACK:
            answer = Api(wire).send("PUT", fresh(), WEBHOOK | {"webhook": {"url": url}})
            assert refusal(answer) == (400, "WEBHOOK_URL_REJECTED")


@pytest.mark.parametrize("written", ["a%2Fb", "%00", "a%0Ab", "%ff", "x" * 201], ids=lambda written: written[:12])
def test_an_id_that_is_none_is_a_400(api: Api, written: str) -> None:
    assert api.send("PUT", written, PULL).status == 400


# Other bodies


@pytest.fixture
def name(api: Api) -> str:
    """A pull-wake subscription without work."""
    api.send("PUT", name := fresh(), PULL)
    return name


@pytest.fixture
def bearer(api: Api, name: str) -> str:
    """What the worker shows who has claimed the work of that subscription."""
    api.create(path := f"events/{fresh()}")
    api.append(path)
    return f"Bearer {document(api.claim(name))['token']}"


BODIES: dict[str, object] = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": [],
    "empty": {},
    "no UTF-8": b'{"worker": "\xff", "streams": ["\xff"], "wake_id": "\xff"}',
    "deep in what is passed over": b'{"other":' + b"[" * 100_000,
    "wrong types": {"streams": "a", "worker": 7, "wake_id": 7, "generation": "1"},
    "wrong values": {"streams": ["a//b"], "worker": "", "wake_id": "w", "generation": 1.5},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("action", ["streams", "claim", "ack", "release"])
def test_what_is_no_request_is_a_400(api: Api, name: str, bearer: str, action: str, body: object) -> None:
    answer = api.send("POST", f"{name}/{action}", body, authorization=bearer)
    assert refusal(answer) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("acks", [{}, "x", [7], [{}], [{"stream": "a"}], [{"stream": "a", "offset": 4}]], ids=str)
def test_what_is_no_ack_is_a_400(api: Api, name: str, bearer: str, acks: object) -> None:
    body = {"wake_id": "w", "generation": 1, "acks": acks}
    answer = api.send("POST", f"{name}/ack", body, authorization=bearer)
    assert refusal(answer) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("action", ["streams", "claim"])
def test_what_is_not_there_takes_no_request(api: Api, action: str) -> None:
    """§6.3."""
    answer = api.send("POST", f"{fresh('missing')}/{action}", {"streams": ["a"], "worker": "w"})
    assert refusal(answer) == (404, "SUBSCRIPTION_NOT_FOUND")


@pytest.mark.parametrize("root", ["/v1/stream", "/ds/missing"])
@pytest.mark.parametrize("action", ["callback", "ack", "release"])
@pytest.mark.parametrize("said", [{"wake_id": "w", "generation": 1}, b"{"], ids=["a report", "none"])
def test_without_a_token_a_report_finds_out_nothing(api: Api, name: str, root: str, action: str, said: object) -> None:
    """§12.9: neither which subscriptions are there, nor of which kind, nor how reports are written."""
    there = api.send("POST", f"{name}/{action}", said, authorization="Bearer x")
    absent = Api(api.wire, root).send("POST", f"{fresh('missing')}/{action}", said, authorization="Bearer x")
    assert refusal(there) == (401, "TOKEN_INVALID")
    assert (there.status, there.body) == (absent.status, absent.body)


def test_a_token_of_another_subscription_finds_out_nothing_either(api: Api, name: str, bearer: str) -> None:
    api.send("PUT", other := fresh(), PULL)
    said = {"wake_id": "w", "generation": 1}
    answers = [api.send("POST", f"{each}/ack", said, authorization=bearer) for each in (other, fresh("missing"))]
    assert [refusal(answer) for answer in answers] == [(401, "TOKEN_INVALID")] * 2
    assert answers[0].body == answers[1].body
    assert refusal(api.send("POST", f"{name}/ack", said, authorization=bearer)) == (409, "FENCED")


@pytest.mark.parametrize("method, below", [("GET", ""), ("DELETE", ""), ("DELETE", "/streams/a")])
def test_what_is_not_there_is_a_404(api: Api, method: str, below: str) -> None:
    assert refusal(api.send(method, fresh("missing") + below)) == (404, "SUBSCRIPTION_NOT_FOUND")


def test_a_body_that_is_too_large_is_a_413(start_either: StartEither) -> None:
    server = start_either(limits__max_append_bytes=1000)
    with server.connect() as wire:
        streams = [f"stream-{number}" for number in range(200)]
        answer = Api(wire).send("PUT", fresh(), PULL | {"streams": streams})
        assert answer.status == 413
    with server.connect() as wire:
        assert wire.get("/healthz").status == 200


def test_too_many_streams_at_once_are_a_400(api: Api) -> None:
    streams = [str(number) for number in range(10_001)]
    assert refusal(api.send("PUT", fresh(), PULL | {"streams": streams})) == (400, "INVALID_REQUEST")


# Methods and places


PLACES = {
    "": "PUT, GET, HEAD, DELETE",
    "/streams": "POST",
    "/streams/a/b": "DELETE",
    "/callback": "POST",
    "/claim": "POST",
    "/ack": "POST",
    "/release": "POST",
}


@pytest.mark.parametrize("below, allowed", PLACES.items(), ids=[place or "/" for place in PLACES])
def test_a_method_that_a_place_does_not_know_is_a_405(api: Api, name: str, below: str, allowed: str) -> None:
    for method in {"PATCH", "TRACE", "GET", "PUT", "POST", "DELETE"} - set(allowed.split(", ")):
        answer = api.send(method, name + below)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_the_key_set_is_only_read(api: Api, method: str) -> None:
    answer = api.wire.request(method, "/v1/stream/__ds/jwks.json", b"{}")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_no_body(api: Api, name: str) -> None:
    head, get = api.send("HEAD", name), api.send("GET", name)
    assert (head.status, head.headers["content-type"]) == (200, "application/json")
    assert get.status == 200
    assert api.wire.request("HEAD", "/v1/stream/__ds/jwks.json").headers["content-type"] == "application/jwk-set+json"
    assert api.send("HEAD", fresh("missing")).status == 404
    assert api.wire.get("/healthz").body == b"ok"


@pytest.mark.parametrize("below", PLACES, ids=[place or "/" for place in PLACES])
def test_a_browser_may_ask_before_it_asks(api: Api, name: str, below: str) -> None:
    answer = api.send("OPTIONS", name + below, origin="https://app.example", access_control_request_method="POST")
    assert answer.status == 204
    assert "POST" in answer.headers["access-control-allow-methods"]


NOWHERE = [
    "/v1/stream/__ds",
    "/v1/stream/__ds/",
    "/v1/stream/__ds/other",
    "/v1/stream/__ds/subscriptions/",
    "/v1/stream/__ds/subscriptions/x/other",
    "/v1/stream/__ds/subscriptions/x/claim/more",
    "/v1/stream/__ds/jwks.json/more",
]


@pytest.mark.parametrize("target", NOWHERE)
def test_no_stream_is_below_the_reserved_prefix(api: Api, target: str) -> None:
    """§6: it is routed before streams."""
    for method in ("GET", "PUT"):
        assert api.wire.request(method, target, content_type="text/plain").status in {400, 404}


def test_every_answer_has_the_safety_headers(api: Api, name: str) -> None:
    """§12.7."""
    for answer in (api.send("GET", name), api.send("GET", fresh("missing")), api.send("PATCH", name)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox"
        assert "no-store" in answer.headers["cache-control"]
