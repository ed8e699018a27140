"""Receiving webhooks: what is believed, and what is not (§7.1, §12.10)."""

import asyncio
import secrets
from threading import Barrier, Thread

import httpx2
import msgspec
import pytest
from hypothesis import given, strategies as st

from everbrook.client import Jwks, Reason, Receiver, SignatureInvalid
from everbrook.client.jwks import AsyncJwks, KeysUnavailable
from everbrook.client.webhooks import AsyncReceiver, Replays, Signature, parse_header, verify
from everbrook.server.webhooks.secrets import KeyRing, SigningKey
from tests.client.keys import BODY, KEY, NOW, OTHER, URL, Publisher, jwks
from tests.kit.generated import generated

KEYS = jwks(KEY, OTHER)
SIGNATURE = KEY.signature(BODY, NOW)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def reason(body: bytes, header: str, now: float = NOW) -> Reason:
    with pytest.raises(SignatureInvalid) as caught:
        verify(body, header, KEYS, now)
    return caught.value.reason


def receiver_at(now: float, publisher: Publisher, remembered: int = 100) -> Receiver:
    client = httpx2.Client(transport=httpx2.MockTransport(publisher))
    return Receiver(Jwks(URL, client), replays=Replays(300, remembered), clock=lambda: now)


def test_a_request_of_the_server_is_believed() -> None:
    verify(BODY, KEY.header(), KEYS, NOW)
    verify(b"", OTHER.header(b""), KEYS, NOW)


@generated
@given(st.binary(), st.integers(0, 2**40))
def test_what_our_server_signs_is_believed(body: bytes, now: int) -> None:
    ring = KeyRing(SigningKey(secrets.token_bytes(32)))
    verify(body, ring.active.sign(body, now), msgspec.to_builtins(ring.jwks(now)), now)


def test_what_our_server_signed_before_a_rotation_is_believed_after_it() -> None:
    """§6.5."""
    ring = KeyRing(SigningKey(bytes(32)))
    header = ring.active.sign(BODY, int(NOW))
    rotated = ring.rotate(int(NOW), b"\1" * 32, 600)
    verify(BODY, header, msgspec.to_builtins(rotated.jwks(int(NOW) + 299)), NOW + 299)


@pytest.mark.parametrize("apart", [-300, -1, 0, 1, 300])
def test_a_timestamp_within_the_tolerance_is_believed(apart: int) -> None:
    verify(BODY, KEY.header(timestamp=NOW + apart), KEYS, NOW)


@pytest.mark.parametrize("apart", [-100_000, -301, 301, 100_000])
def test_a_timestamp_outside_the_tolerance_is_stale(apart: int) -> None:
    """§7.1: five minutes, unless told otherwise."""
    assert reason(BODY, KEY.header(timestamp=NOW + apart)) is Reason.STALE


def test_the_tolerance_can_be_set() -> None:
    verify(BODY, KEY.header(timestamp=NOW - 301), KEYS, NOW, tolerance_secs=301)
    with pytest.raises(SignatureInvalid, match="more than 10 s apart"):
        verify(BODY, KEY.header(timestamp=NOW - 11), KEYS, NOW, tolerance_secs=10)


@pytest.mark.parametrize(
    "body, header",
    [
        (BODY + b" ", KEY.header()),
        (b"", KEY.header()),
        (BODY, KEY.header(b"another")),
        (BODY, KEY.header().replace(f"t={int(NOW)}", f"t={int(NOW) + 1}")),
        (BODY, KEY.header().replace("kid=ds_one", "kid=ds_two")),
        (BODY, f"t={int(NOW)},kid=ds_one,ed25519={'A' * 86}"),
    ],
)
def test_another_body_time_or_key_than_was_signed_is_a_mismatch(body: bytes, header: str) -> None:
    assert reason(body, header) is Reason.MISMATCH


def test_a_key_that_the_server_does_not_publish_is_unknown() -> None:
    assert reason(BODY, KEY.header().replace("ds_one", "ds_three")) is Reason.UNKNOWN_KEY


@pytest.mark.parametrize(
    "header",
    [
        "",
        ",",
        "t=1",
        SIGNATURE,
        f"t={int(NOW)},kid=ds_one",
        f"t={int(NOW)},ed25519={SIGNATURE}",
        f"kid=ds_one,ed25519={SIGNATURE}",
        f"t={int(NOW)},kid=,ed25519={SIGNATURE}",
        f"t=,kid=ds_one,ed25519={SIGNATURE}",
        f"t=0{int(NOW)},kid=ds_one,ed25519={SIGNATURE}",
        f"t=+{int(NOW)},kid=ds_one,ed25519={SIGNATURE}",
        f"t={int(NOW)}.0,kid=ds_one,ed25519={SIGNATURE}",
        f"t=1_778_324_210,kid=ds_one,ed25519={SIGNATURE}",
        f"t=１７７８３２４２１０,kid=ds_one,ed25519={SIGNATURE}",  # noqa: RUF001 - digits that int() takes
        f"t={'9' * 400},kid=ds_one,ed25519={SIGNATURE}",
        f"t={int(NOW)},t={int(NOW)},kid=ds_one,ed25519={SIGNATURE}",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE},ed25519={SIGNATURE}",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE}==",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE[:-1]}",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE}AA",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE[:-2]}+/",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE[:-1]}ä",
        f"t={int(NOW)},kid=ds_one,ed25519=",
        f"t={int(NOW)};kid=ds_one;ed25519={SIGNATURE}",
        f"t={int(NOW)},kid=ds_one,ed25519={SIGNATURE},x={'x' * 1000}",
    ],
)
def test_a_header_of_another_form_is_malformed(header: str) -> None:
    assert reason(BODY, header) is Reason.MALFORMED


def test_a_signature_has_one_spelling() -> None:
    """Its last letter holds bits that decoding drops; if they were free, a replay could pass for a new request."""
    accepted = []
    for letter in LETTERS:
        try:
            verify(BODY, KEY.header()[:-1] + letter, KEYS, NOW)
        except SignatureInvalid:
            continue
        accepted.append(letter)
    assert accepted == [SIGNATURE[-1]]


def test_parameters_may_come_in_any_order_and_with_others() -> None:
    verify(BODY, f"v2=x, ed25519={SIGNATURE}, kid=ds_one, t={int(NOW)}", KEYS, NOW)


@generated
@given(st.text(max_size=200))
def test_any_header_is_believed_or_refused_for_a_reason(header: str) -> None:
    assert reason(BODY, header) in set(Reason)


@pytest.mark.parametrize("document", [{}, {"keys": {}}, {"keys": None}])
def test_what_is_no_key_set_is_the_callers_error(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be a JSON object with a list of keys"):
        verify(BODY, KEY.header(), document, NOW)


def test_a_receiver_believes_a_request_once() -> None:
    receiver = receiver_at(NOW, Publisher(KEY))
    receiver.check(BODY, KEY.header())
    receiver.check(BODY, KEY.header(timestamp=NOW + 1))
    for again in (KEY.header(), f"x=1, {KEY.header()}"):
        with pytest.raises(SignatureInvalid, match="a second time") as caught:
            receiver.check(BODY, again)
        assert caught.value.reason is Reason.REPLAYED


def test_a_request_that_was_not_believed_is_not_remembered() -> None:
    receiver = receiver_at(NOW, Publisher(KEY))
    for _ in range(2):
        with pytest.raises(SignatureInvalid, match="does not match the body"):
            receiver.check(b"altered", KEY.header())
    receiver.check(BODY, KEY.header())


def test_a_receiver_without_any_keys_can_not_tell() -> None:
    publisher = Publisher(KEY)
    publisher.down = True
    with pytest.raises(KeysUnavailable, match="nobody is there"):
        receiver_at(NOW, publisher).check(BODY, KEY.header())


@pytest.mark.parametrize("header", ["nonsense", KEY.header(timestamp=NOW - 1000)])
def test_what_can_be_refused_without_keys_causes_no_fetch(header: str) -> None:
    publisher = Publisher(KEY)
    with pytest.raises(SignatureInvalid):
        receiver_at(NOW, publisher).check(BODY, header)
    assert publisher.requests == []


def test_of_one_request_at_many_threads_one_is_believed() -> None:
    receiver, together, outcomes = receiver_at(NOW, Publisher(KEY)), Barrier(8), list[str]()

    def check() -> None:
        together.wait()
        try:
            receiver.check(BODY, KEY.header())
            outcomes.append("believed")
        except SignatureInvalid as refusal:
            outcomes.append(refusal.reason)

    threads = [Thread(target=check) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["believed"] + ["replayed"] * 7


def test_the_receiver_for_an_event_loop_does_the_same() -> None:
    async def main() -> None:
        publisher = Publisher(KEY)
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(publisher)) as client:
            receiver = AsyncReceiver(AsyncJwks(URL, client), clock=lambda: NOW)
            await receiver.check(BODY, KEY.header())
            for body, header, expected in (
                (BODY, KEY.header(), Reason.REPLAYED),
                (b"altered", KEY.header(), Reason.MISMATCH),
                (BODY, OTHER.header(), Reason.UNKNOWN_KEY),
                (BODY, KEY.header(timestamp=NOW - 301), Reason.STALE),
                (BODY, "nonsense", Reason.MALFORMED),
            ):
                with pytest.raises(SignatureInvalid) as caught:
                    await receiver.check(body, header)
                assert caught.value.reason is expected
            assert len(publisher.requests) == 1

    asyncio.run(main())


def seen(timestamp: int, number: int = 0) -> Signature:
    return Signature(timestamp, "k", b"%d" % number)


def refused(replays: Replays, signed: Signature, now: float) -> Reason:
    with pytest.raises(SignatureInvalid) as caught:
        replays.admit(signed, now)
    return caught.value.reason


def test_a_memory_holds_what_could_be_replayed_and_no_more() -> None:
    replays = Replays(300)
    for now in range(1000, 3000):
        replays.admit(seen(now), now)
    assert len(replays) == 301
    assert refused(replays, seen(2699), 2999) is Reason.REPLAYED


def test_a_memory_that_is_full_lets_nothing_in_twice() -> None:
    replays = Replays(300, remembered=10)
    for number in range(15):
        replays.admit(seen(1000 + number), 1014)
    assert len(replays) == 10
    assert [refused(replays, seen(1000 + number), 1014) for number in range(15)] == ["stale"] * 5 + ["replayed"] * 10
    replays.admit(seen(1013, 1), 1014)


def test_a_clock_that_is_set_back_lets_nothing_in_twice() -> None:
    replays = Replays(300)
    replays.admit(seen(1000), 1000)
    replays.admit(seen(2000), 2000)
    assert refused(replays, seen(1000), 1001) is Reason.STALE


@generated
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 30)), max_size=60), st.integers(1, 8))
def test_nothing_is_admitted_twice_whatever_comes_when(moves: list[tuple[int, int, int]], remembered: int) -> None:
    replays, admitted = Replays(10, remembered), set[Signature]()
    for timestamp, number, now in moves:
        try:
            replays.admit(seen(timestamp, number), now)
        except SignatureInvalid:
            continue
        assert seen(timestamp, number) not in admitted
        admitted.add(seen(timestamp, number))
        assert len(replays) <= remembered


def test_the_parts_of_a_header_can_be_read_apart() -> None:
    assert parse_header(KEY.header())[:2] == (int(NOW), "ds_one")
