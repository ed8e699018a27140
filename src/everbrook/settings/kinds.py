"""The types of settings, with the words of error messages for what each must be."""

from enum import StrEnum
from sys import float_info
from typing import Annotated, Self

from msgspec import Meta

# The words of an error message for what a value must be, where the type does not express it.
EXPECTED = "expected"

Host = Annotated[str, Meta(extra={EXPECTED: "an address or a host name"})]
PublicUrl = Annotated[
    str, Meta(extra={EXPECTED: "an http or https URL without credentials, query, fragment or trailing slash"})
]
Root = Annotated[str, Meta(extra={EXPECTED: "a path that begins and ends with a slash, such as '/v1/stream/'"})]
RootOrNone = Annotated[
    str, Meta(extra={EXPECTED: "nothing, or a path that begins and ends with a slash, such as '/v1/streams/'"})
]
Origins = Annotated[
    str, Meta(extra={EXPECTED: "'*' or origins such as 'https://app.example.com', separated by commas"})
]
FilePath = Annotated[str, Meta(extra={EXPECTED: "the path of a file"})]
Folder = Annotated[str, Meta(extra={EXPECTED: "the path of a folder"})]
Filter = Annotated[str, Meta(extra={EXPECTED: "a log filter such as 'warn,everbrook.engine=debug'"})]
Switch = Annotated[bool, Meta(extra={EXPECTED: "true or false"})]
Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=0)]
ShardCount = Annotated[int, Meta(ge=1, le=256, extra={EXPECTED: "a power of two from 1 to 256"})]
Seconds = Annotated[float, Meta(ge=0, le=float_info.max)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=float_info.max)]


class Choice(StrEnum):
    """A closed set of words, read in any case."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        word = str(value).lower()
        return next((member for member in cls if member.value == word), None)
