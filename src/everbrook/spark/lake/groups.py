"""Groups of streams: what tables are partitioned by, beside the day.

1                     the first segment of the path (`orders/eu` is of `orders`); 2 are the first two
"prefix"              all that comes before the last segment
"^tenants/([^/]+)/"   what a regular expression finds: its first group, or all of it

A group is the name of a folder. One that would be too long for that is cut, and ends with a digest of all of it; and
one with a `~` has a `-` instead, as delta-rs does not find the files of such a folder again that it has compacted.
The name of the folder of what has no group is no group either.
"""

import hashlib
import re
from collections.abc import Callable
from urllib.parse import quote

from everbrook.spark.given import InvalidOption

Group = int | str
OTHERS = ""
"""Of streams in which nothing is found: tables have NULL for it, as they do not know an empty text."""
NO_GROUP = "__HIVE_DEFAULT_PARTITION__"
"""How all readers of such folders know that there is none."""
PREFIX = "prefix"
_LONGEST = 200
"""Bytes of a group in the name of its folder: file systems take 255, and some are for what comes before."""
_DIGITS = 16
_ASCII = re.compile(r"[\x00-\x7f]+")


def check_group(group: Group) -> None:
    """Refuse what says nothing about groups."""
    if isinstance(group, bool) or (isinstance(group, int) and group < 1) or group == "":
        raise InvalidOption(f"group must be a number of segments, 'prefix' or a regular expression, got {group!r}")
    if isinstance(group, str) and group.isdecimal():
        raise InvalidOption(f"group must be a number of segments without quotes, got the text {group!r}")
    if isinstance(group, str) and group != PREFIX:
        try:
            re.compile(group)
        except re.error as error:
            raise InvalidOption(f"group must be a regular expression, got {group!r}: {error}") from None


def grouping(group: Group) -> Callable[[str], str]:
    """Make what tells the group of a stream."""
    find = _finding(group)

    def group_of(stream: str) -> str:
        found = find(stream)
        return OTHERS if found == NO_GROUP else _cut(found.replace("~", "-"))

    return group_of


def escaped(group: str) -> str:
    """Write a group as the name of a folder. What is not ASCII stays: Spark takes each byte of it for a character."""
    return _ASCII.sub(lambda found: quote(found[0], safe=""), group)


def _cut(group: str) -> str:
    if _length(group) <= _LONGEST:
        return group
    begin = group[:_LONGEST]
    while _length(begin) > _LONGEST - _DIGITS - 1:
        begin = begin[:-1]
    return f"{begin}-{hashlib.sha256(group.encode()).hexdigest()[:_DIGITS]}"


def _length(group: str) -> int:
    """Count the bytes of a name in which all is escaped: that is how delta-rs names folders when it compacts."""
    return len(quote(group, safe=""))


def _finding(group: Group) -> Callable[[str], str]:
    if isinstance(group, int):
        return lambda stream: "/".join(stream.strip("/").split("/")[:group])
    if group == PREFIX:
        return lambda stream: stream.strip("/").rpartition("/")[0]
    return _found_by(re.compile(group))


def _found_by(pattern: "re.Pattern[str]") -> Callable[[str], str]:
    def find(stream: str) -> str:
        found = pattern.search(stream.strip("/"))
        if found is None:
            return OTHERS
        return (found[1] if pattern.groups else found[0]) or OTHERS

    return find
