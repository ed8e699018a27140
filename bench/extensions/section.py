"""What a part of the run has shown: a table for people, and every sample for whatever comes after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.report import align

Sample = Mapping[str, str | int | float]


@dataclass(slots=True)
class Section:
    """A table under a title, remarks below it, and the samples that it was made from."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


def format_sections(sections: Sequence[Section]) -> str:
    """Write the tables one below the other."""
    return "\n".join(line for section in sections for line in _lines(section))


def _lines(section: Section) -> list[str]:
    return [section.title, *align([section.headings, *section.rows]), *section.remarks, ""]


def verdict(claim: str, *, met: bool) -> str:
    """Say whether an aim was reached."""
    return f"{claim}: {'met' if met else 'MISSED'}"
