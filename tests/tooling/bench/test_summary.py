"""From rounds to figures."""

import pytest

from bench.summary import Sample, compare, percentile, summarise


def sample(*, per_second: float = 100.0, cpu_us: float = 10.0, missing: int = 0) -> Sample:
    return Sample(
        case="append",
        subject="everbrook-memory",
        round=0,
        operations=100,
        missing=missing,
        per_second=per_second,
        p50_ms=1.0,
        p99_ms=2.0,
        cpu_us=cpu_us,
        cpu_share=0.5,
        generator_us=7.0,
        generator_share=0.3,
        rss_mb=40.0,
    )


@pytest.mark.parametrize("share, value", [(0.50, 50), (0.99, 99), (0.991, 100), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_the_nearest_rank(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7], 0.99) == 7


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_figures_are_medians_and_missing_deliveries_add_up() -> None:
    figures = summarise([sample(per_second=value, missing=1) for value in (10.0, 1000.0, 20.0)])

    assert (figures.per_second, figures.missing) == (20.0, 3)


def test_ratios_are_taken_within_a_round_before_the_median() -> None:
    ours = [sample(per_second=value) for value in (100.0, 200.0, 900.0)]
    reference = [sample(per_second=value) for value in (100.0, 50.0, 300.0)]

    assert compare(ours, reference).speed_ratio == 3.0  # the ratio of the medians would be 2


def test_both_ratios_are_above_one_when_ours_is_better() -> None:
    comparison = compare([sample(per_second=300, cpu_us=10)], [sample(per_second=100, cpu_us=40)])

    assert (comparison.speed_ratio, comparison.cpu_ratio) == (3.0, 4.0)


def test_a_round_without_its_counterpart_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compare([sample(), sample()], [sample()])


def test_what_is_left_of_the_speed_of_memory_is_taken_within_a_round() -> None:
    ours = [sample(per_second=value) for value in (10.0, 20.0, 90.0)]
    memory = [sample(per_second=value) for value in (100.0, 40.0, 100.0)]

    assert compare(ours, ours, memory).memory_ratio == 0.5
    assert compare(ours, ours).memory_ratio is None
