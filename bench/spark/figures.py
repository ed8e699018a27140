"""Figures: what one case gave on our server and on the reference, and what it was to give."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.extensions.section import Section, verdict

_HEADINGS = ("case", "unit", "ours", "reference", "x", "aim", "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a case is to reach: so many a second at least, or so many milliseconds at most."""

    value: float
    at_least: bool

    def met(self, figure: float) -> bool:
        """Return whether a figure reaches it."""
        return figure >= self.value if self.at_least else figure <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.value:,.0f}"


def at_least(value: float) -> Aim:
    """Ask for so many or more."""
    return Aim(value=value, at_least=True)


def at_most(value: float) -> Aim:
    """Ask for so many or fewer."""
    return Aim(value=value, at_least=False)


@dataclass(slots=True, kw_only=True)
class Figure:
    """The samples of one case, one of each server for each round. `missing` says why the reference has none."""

    case: str
    unit: str
    aim: Aim | None = None
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    missing: str = ""
    remarks: list[str] = field(default_factory=list)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def ratio(self) -> float | None:
        """How much better ours is within a round, where both met the same machine; the median round speaks."""
        if not (self.ours and self.theirs):
            return None
        if len(self.ours) == len(self.theirs):
            better = median(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))
        else:  # not rounds, but looks of which the slower server had fewer
            better = median(self.ours) / median(self.theirs)
        return better if self.unit.endswith("/s") else 1 / better

    def row(self) -> tuple[str, ...]:
        """Return the line of the table."""
        theirs = f"{median(self.theirs):,.1f}" if self.theirs else "-"
        ratio = "-" if self.ratio is None else f"{self.ratio:.1f}"
        aim = "" if self.aim is None else str(self.aim)
        return (self.case, self.unit, f"{median(self.ours):,.1f}", theirs, ratio, aim, f"{self.load:.1f}")


def section_of(title: str, figures: Sequence[Figure]) -> Section:
    """Make the table of a part, with what was reached and what the reference could not do below it."""
    section = Section(title, _HEADINGS, rows=[figure.row() for figure in figures])
    for figure in figures:
        if figure.aim is not None:
            reached = median(figure.ours)
            claim = f"{figure.case}: {reached:,.1f} {figure.unit}, aim {figure.aim}"
            section.remarks.append(verdict(claim, met=figure.aim.met(reached)))
        if figure.missing:
            section.remarks.append(f"{figure.case}: the reference has no figure: {figure.missing}.")
        section.remarks += figure.remarks
        for server, samples in (("ours", figure.ours), ("reference", figure.theirs)):
            section.samples += [{"case": figure.case, "server": server, figure.unit: sample} for sample in samples]
    return section
