"""Token buckets, and whom an address stands for."""

import pytest

from everbrook.server.limits.rates import Rate, client_of


def passed(rate: Rate, key: str, now: float, attempts: int = 1000) -> int:
    """Draw again and again at one moment, and tell how often that was possible."""
    for number in range(attempts):
        if rate.wait_secs(key, now) > 0:
            return number
        rate.draw(key, 1, now)
    return attempts


def test_as_much_as_a_burst_comes_at_once() -> None:
    assert passed(Rate(8, 2.0 - 1 / 8), "a", 1.0) == 16


def test_in_the_long_run_it_is_the_rate() -> None:
    rate = Rate(8, 2.0 - 1 / 8)
    passed(rate, "a", 1.0)
    assert sum(passed(rate, "a", 1.0 + second) for second in range(1, 11)) == 80


def test_after_the_wait_that_was_told_it_passes() -> None:
    rate = Rate(0.5, 1.0)
    rate.draw("a", 3, 1.0)
    wait_secs = rate.wait_secs("a", 1.0)
    assert rate.wait_secs("a", 1.0 + wait_secs - 0.01) > 0
    assert rate.wait_secs("a", 1.0 + wait_secs) == 0


def test_what_is_larger_than_a_bucket_passes_and_is_owed() -> None:
    rate = Rate(100, 1.0)
    assert rate.wait_secs("a", 1.0) == 0
    rate.draw("a", 1000, 1.0)
    assert rate.wait_secs("a", 1.0) == 9


def test_nobody_pays_for_another() -> None:
    rate = Rate(1, 0.0)
    rate.draw("a", 100, 1.0)
    assert rate.wait_secs("b", 1.0) == 0


def test_a_million_addresses_take_no_more_than_a_table() -> None:
    rate = Rate(1, 1.0, max_buckets=1000)
    for number in range(100_000):
        rate.draw(str(number), 1, 1.0)
    assert len(rate) == 1000


def test_whoever_asks_all_the_time_is_not_forgotten_for_those_who_asked_once() -> None:
    rate = Rate(1, 0.0, max_buckets=10)
    for number in range(100):
        rate.draw("a", 1, 1.0)
        rate.draw(str(number), 1, 1.0)
    assert rate.wait_secs("a", 1.0) >= 99


@pytest.mark.parametrize(
    "address, client",
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_addresses_that_one_client_has_at_will_are_one(address: str, client: str) -> None:
    assert client_of(address) == client
