"""Events that APIs sent, as the packages' own classes read them."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def recorded(name: str) -> list[dict[str, Any]]:
    """The events of a recording, as JSON."""
    events: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return events
