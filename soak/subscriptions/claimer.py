"""A worker of pull-wakes: it follows a wake stream, and races others for what that tells of."""

import json
from collections.abc import Mapping

from soak.client import Client, Unanswered
from soak.ledger import PromiseBroken
from soak.subscriptions.ledger import Grant, pending_of
from soak.subscriptions.work import Subscriber, Work, Workplace


class Claimer:
    """Follows a wake stream, and races for what it tells of."""

    def __init__(self, place: Workplace, name: str, wake_url: str, subscribers: Mapping[str, Subscriber]) -> None:
        self._place, self._name, self._wake_url, self._subscribers = place, name, wake_url, subscribers
        self._offset = "-1"
        self._unclaimed: list[str] = []

    def step(self, client: Client) -> None:
        """Claim what was told of, or wait for news. A claim that stays unanswered is made again."""
        if not self._unclaimed:
            answer = client.expect({200, 204}, "GET", f"{self._wake_url}?offset={self._offset}&live=long-poll")
            events = json.loads(answer.body) if answer.status == 200 else []  # noqa: PLR2004 - there is news
            self._unclaimed = [event["subscription_id"] for event in events]
            self._offset = answer.headers["stream-next-offset"]
            if events:
                self._place.moments.reach("wake")
        while self._unclaimed:
            self._claim(client, self._subscribers[self._unclaimed[0]])
            self._unclaimed.pop(0)

    def _claim(self, client: Client, subscriber: Subscriber) -> None:
        self._place.moments.reach("claim")
        answer = client.expect(
            {200, 409}, "POST", f"{subscriber.url}/claim", json.dumps({"worker": self._name}).encode()
        )
        wake = json.loads(answer.body)
        if answer.status == 409:  # noqa: PLR2004
            if wake["error"]["code"] not in {"ALREADY_CLAIMED", "NO_PENDING_WORK"}:
                raise PromiseBroken(f"a claim of {subscriber.id} was refused: {answer.body!r}")
            return
        grant, told = Grant(wake["generation"], wake["wake_id"], wake["token"]), pending_of(wake)
        subscriber.cursors.tell(grant, told, claimed=True)
        work = Work(self._place, subscriber, grant, told)
        try:
            self._act(work, self._place.way())
        except Unanswered:
            pass  # the lease will run out
        finally:
            work.close()

    def _act(self, work: Work, way: str) -> None:
        if way != "forget":
            work.read()
        if way == "late":
            work.too_late()
        elif way in {"release", "fail"}:
            work.release()
        elif way == "done":
            work.report({path: ends[-1] for path, ends in work.ends.items()}, done=True)
        elif way != "forget":
            work.in_steps()
