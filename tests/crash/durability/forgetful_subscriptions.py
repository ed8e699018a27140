"""`python forgetful_subscriptions.py BUG everbrook serve …`: a server with a deliberate bug in its subscriptions."""

import sys
from collections.abc import Callable, Iterator, Mapping

from everbrook.cli.main import main
from everbrook.engine.subscriptions import index
from everbrook.engine.subscriptions.service import Subscriptions, WakeReport
from everbrook.engine.subscriptions.wakes import WakeScheduler
from everbrook.protocol.subscriptions import Ended, Event, Held, Subscription, fold
from everbrook.server.webhooks.worker_api import WorkerApi


def look_at_nothing() -> None:
    """Look for no news that came before the start."""

    def scan(*_: object) -> Iterator[None]:
        yield

    Subscriptions._scan = scan  # type: ignore[assignment, method-assign]


def deliver_once() -> None:
    """Take a delivery that was under way when the last server ended for one that arrived, and forget its lease."""

    def resume(*_: object) -> None:
        """Do nothing."""

    WakeScheduler.resume = resume  # type: ignore[assignment, method-assign]


def forget_acks() -> None:
    """Fold a subscription without the last thing that workers said."""

    def forget(subscription: Subscription | None, event: Event) -> Subscription:
        if isinstance(event, (Held, Ended)):
            event = Held("nobody", 1) if isinstance(event, Held) else Ended()
        return fold(subscription, event)

    index.fold = forget  # type: ignore[attr-defined]


def begin_again() -> None:
    """Count generations from where the last statement of everything left them."""

    def forget(subscription: Subscription | None, event: Event) -> Subscription:
        folded = fold(subscription, event)
        folded.generation = 0
        return folded

    index.fold = forget  # type: ignore[attr-defined]


def fence_nobody() -> None:
    """Take every report for one of the current wake."""
    report = Subscriptions.report

    def accept(served: Subscriptions, root: bytes, subscription_id: str, reported: WakeReport) -> bool:
        current = served.find(root, subscription_id)
        if current.wake:
            acks, done = reported.acks, reported.done
            reported = WakeReport(current.wake.wake_id, current.generation, acks, done)
        return report(served, root, subscription_id, reported)

    Subscriptions.report = accept  # type: ignore[assignment, method-assign]
    WorkerApi.check = lambda *_: None  # type: ignore[method-assign]


BUGS: Mapping[str, Callable[[], None]] = {
    "look-at-nothing": look_at_nothing,
    "deliver-once": deliver_once,
    "forget-acks": forget_acks,
    "begin-again": begin_again,
    "fence-nobody": fence_nobody,
}

if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    main(sys.argv[3:])
