"""Groups of streams, by their paths."""

from urllib.parse import quote

import pytest

from everbrook.spark.lake.files import Group, check_group, grouping
from everbrook.spark.options import InvalidOption


@pytest.mark.parametrize(
    "group, stream, expected",
    [
        (1, "orders/eu/1", "orders"),
        (2, "orders/eu/1", "orders/eu"),
        (3, "orders", "orders"),
        ("prefix", "orders/eu/1", "orders/eu"),
        ("prefix", "orders", ""),
        (r"^tenants/([^/]+)", "tenants/ada/inbox", "ada"),
        (r"\d+", "room-42/x", "42"),
        (r"^tenants/([^/]+)", "other", ""),
        (1, "__HIVE_DEFAULT_PARTITION__/x", ""),
    ],
)
def test_a_stream_is_of_the_group_that_its_path_says(group: Group, stream: str, expected: str) -> None:
    check_group(group)
    assert grouping(group)(stream) == expected


@pytest.mark.parametrize("group, stream", [(1, "日" * 80 + "/x"), ("prefix", "/".join(["segment"] * 35) + "/x")])
def test_a_group_that_is_too_long_for_a_folder_is_cut_and_still_told_from_others(group: Group, stream: str) -> None:
    found = grouping(group)(stream)
    assert stream.startswith(found[:-17])
    assert len(quote(found, safe="")) <= 200
    assert found != grouping(group)(stream.replace("/x", "y/x"))


@pytest.mark.parametrize("group", [0, -1, "", "(", "2"])
def test_what_says_nothing_about_groups_is_refused(group: Group) -> None:
    with pytest.raises(InvalidOption, match="group must be a"):
        check_group(group)
