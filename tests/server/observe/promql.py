"""The metrics and labels that queries name: a reader of the simple PromQL that our dashboard and alerts use.

It knows selectors, grouping and the suffixes of histograms. What it does not understand it must not pass over, so a
word that is neither known to PromQL nor a metric counts as a metric that is not there.
"""

import re

WORDS = {"sum", "min", "max", "by", "rate", "increase", "histogram_quantile", "label_values"}

_STRING = r'"[^"]*"'
_SELECTOR = re.compile(rf"([a-zA-Z_:][\w:]*)\s*\{{((?:[^{{}}\"]|{_STRING})*)\}}")
_LABEL = re.compile(rf"\s*([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*{_STRING}\s*(?:,|\Z)")
_GROUPING = re.compile(r"\bby\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_WORD = re.compile(r"[a-zA-Z_:][\w:]*")


def used(query: str) -> dict[str, set[str]]:
    """Give every metric that a query names, with the labels that it wants of it."""
    grouped = {label.strip() for group in _GROUPING.findall(query) for label in group.split(",")}
    rest = _RANGE.sub("", _GROUPING.sub(" ", query))
    found: dict[str, set[str]] = {}
    for name, matchers in _SELECTOR.findall(rest):
        found.setdefault(name, set()).update(grouped, _labels(matchers))
    bare = set(_WORD.findall(_SELECTOR.sub(" ", rest))) - WORDS
    for name in bare:
        found.setdefault(name, set()).update(grouped)
    return found


def _labels(matchers: str) -> set[str]:
    labels, rest = set(), matchers
    while rest.strip():
        matcher = _LABEL.match(rest)
        assert matcher, f"a matcher that this reader does not know: {rest!r}"
        labels.add(matcher[1])
        rest = rest[matcher.end() :]
    return labels
