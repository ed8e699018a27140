"""Which parts start: all but those left out, and only such as exist and have what they need."""

import pytest

from everbrook.stack.errors import WrongParts
from everbrook.stack.parts import choose
from everbrook.stack.run import outside, require_places


def names(*, added: tuple[str, ...] = (), left_out: tuple[str, ...] = ()) -> list[str]:
    return [part.name for part in choose(added, left_out)]


def test_all_parts_start_in_the_order_of_the_list() -> None:
    assert names() == ["server", "postgres", "pipeline", "heartbeat", "envoy"]


def test_a_part_may_be_left_out() -> None:
    assert names(left_out=("heartbeat",)) == ["server", "postgres", "pipeline", "envoy"]


@pytest.mark.parametrize(
    "added, left_out, said",
    [
        (("postgre",), (), "there is no part 'postgre': the parts are .*; did you mean postgres?"),
        ((), ("x",), "there is no part 'x': the parts are server, postgres, pipeline, heartbeat, envoy$"),
        (("server",), ("server",), "server: both with and without it"),
        ((), ("server", "postgres", "pipeline", "heartbeat", "envoy"), "no part is left to start"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(added: tuple[str, ...], left_out: tuple[str, ...], said: str) -> None:
    with pytest.raises(WrongParts, match=said):
        choose(added, left_out)


def test_what_is_needed_and_left_out_must_be_named() -> None:
    chosen = choose(left_out=("server",))
    assert outside(chosen) == {"server": "pipeline"}
    with pytest.raises(WrongParts, match="pipeline needs server: leave it in, or say with DS_SERVER_URL where one is"):
        require_places(chosen, {"POSTGRES_URL": "x"})
    require_places(chosen, {"DS_SERVER_URL": "http://elsewhere"})
