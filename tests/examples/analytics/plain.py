"""The same figures without Spark and without batches: all events in hand, one loop, and lists for everything."""

from collections import defaultdict
from datetime import UTC, datetime
from math import ceil
from typing import Any

from examples.analytics.sessions import Appended
from tests.examples.analytics.desk import Rows

NOBODY_WAITS = None
STEPS = ("joined", "asked", "answered", "continued", "closed")


def count_plainly(events: list[Appended]) -> dict[str, Rows]:
    """Give the rows that a page should show."""
    sessions = defaultdict(list)
    for each in events:
        sessions[each.session].append(each.event)
    minutes: dict[str, Any] = defaultdict(lambda: {"questions": 0, "answers": 0, "users": set(), "waits": []})
    funnels: dict[str, Any] = defaultdict(lambda: dict.fromkeys(STEPS, 0))
    for told in sessions.values():
        _count_minutes(told, minutes)
        began = datetime.fromisoformat(told[0]["value"]["at"])
        for step in _steps(told):
            funnels[began.astimezone(UTC).strftime("%Y-%m-%d")][step] += 1
    return {"minute": {key: _row(minute) for key, minute in minutes.items()}, "funnel": dict(funnels)}


def _count_minutes(told: list[dict[str, Any]], minutes: dict[str, Any]) -> None:
    first_of = _first_of_each_key(told)
    waiting: datetime | None = NOBODY_WAITS
    for event in told:
        at = (event["value"].get("at") if isinstance(event.get("value"), dict) else None) or ""
        edited = event["type"] == "message" and event is not first_of[event["key"]]
        if event["type"] not in ("message", "presence", "typing", "reaction") or not at or edited:
            continue
        minute = minutes[at[:16] + "Z"]
        if event["type"] != "message" or event["value"]["role"] == "user":
            minute["users"].add(event["value"].get("user") or event["key"].removeprefix("user:"))
        if event["type"] == "message" and event["value"]["role"] == "user":
            minute["questions"] += 1
            waiting = waiting or datetime.fromisoformat(at)
        elif event["type"] == "message":
            minute["answers"] += 1
            if waiting:
                minute["waits"].append((datetime.fromisoformat(at) - waiting).total_seconds() * 1000)
            waiting = NOBODY_WAITS


def _first_of_each_key(told: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give each message as it was said first, in the order of the session."""
    first: dict[str, dict[str, Any]] = {}
    for event in told:
        if event["type"] == "message":
            first.setdefault(event["key"], event)
    return first


def _steps(told: list[dict[str, Any]]) -> list[str]:
    roles = [event["value"]["role"] for event in _first_of_each_key(told).values()]
    answered = "assistant" in roles
    people = {event["key"] for event in told if event["type"] == "presence"}
    gone = {event["key"] for event in told if event["type"] == "presence" and event["operation"] == "remove"}
    reached = {
        "joined": bool(told),
        "asked": "user" in roles,
        "answered": answered,
        "continued": answered and "user" in roles[roles.index("assistant") :],
        "closed": people == gone,
    }
    return [step for step, taken in reached.items() if taken]


def _row(minute: dict[str, Any]) -> dict[str, Any]:
    waits = sorted(minute["waits"])
    return {
        "messages": minute["questions"] + minute["answers"],
        "questions": minute["questions"],
        "answers": minute["answers"],
        "active_users": len(minute["users"]),
        "response_p50_ms": _percentile(waits, 0.5),
        "response_p95_ms": _percentile(waits, 0.95),
    }


def _percentile(values: list[float], share: float) -> int | None:
    return round(values[ceil(share * len(values)) - 1]) if values else None
