# Written by tools/mirror.py from src/everbrook/client/_async/delivery.py: change that file, not this one.
"""How a producer's batch gets into the stream: sent again until the server has taken it, in its place (§5.2.1)."""

import logging
from collections.abc import Callable

from everbrook.client._sync.concurrency import Condition
from everbrook.client._sync.transport import Transport
from everbrook.client._sync.wire import Answer
from everbrook.client.content import join, kind_of
from everbrook.client.errors import AppendUncertain, NotAStream, ProducerReused
from everbrook.client.flow.producing import Batch, Production
from everbrook.client.refusals import header_of
from everbrook.client.wire import ConnectionBroken
from everbrook.protocol.errors import ProtocolError, SequenceGap, StaleEpoch

logger = logging.getLogger(__name__)

_DUPLICATE = 204


class Delivery:
    """The requests of one producer. Several may deliver at a time, each its own batch."""

    def __init__(
        self,
        transport: Transport,
        url: str,
        content_type: Callable[[], str],
        production: Production,
        changed: Condition,
        *,
        given_up: Callable[[], bool],
        auto_claim: bool,
        known_new: bool,
    ) -> None:
        """Deliver what is taken from a `production`, whose lock is `changed`, until it is `given_up`.

        `known_new` says that no producer of this name can have used its numbers before, or that this does not matter.
        """
        self._transport = transport
        self._url = url
        self._content_type = content_type
        self._production = production
        self._changed = changed
        self._given_up = given_up
        self._auto_claim = auto_claim
        self.known_new = known_new
        self._contested = False
        self._written = False
        self.offset: str | None = None
        self.position: str | None = None
        """What is stored of where the producer is in its source."""

    def deliver(self, batch: Batch) -> None:
        """Send a batch until the server has taken it, or another has failed: then this one can't follow it."""
        attempts = self._transport.attempts(f"POST {self._url}")
        early = False
        while not self._given_up():
            try:
                response = self._send(batch)
            except SequenceGap:
                # It came before those that it follows. Once they are there it has to fit.
                if early and not self._production.follows(batch):
                    raise
                early = True
                self._predecessors(batch)
            except StaleEpoch as fence:
                self._claim(batch, fence, uncertain=attempts.uncertain)
                return
            except (ConnectionBroken, ProtocolError) as failure:
                self._pause(attempts.delay_after(failure), failure)
            else:
                _require_taken(response)
                self._require_own(batch, response)
                if self._taken_for_another(batch, response, uncertain=attempts.uncertain):
                    self._take_over(batch, batch.epoch, uncertain=attempts.uncertain)
                else:
                    self._accepted(batch, response)
                return

    def _pause(self, delay_secs: float, failure: Exception) -> None:
        logger.info("trying again in %.1f s: %s", delay_secs, str(failure) or type(failure).__name__)
        with self._changed:
            self._changed.wait_until(self._given_up, delay_secs)

    def _send(self, batch: Batch) -> Answer:
        content_type = self._content_type()
        headers = {
            "Producer-Id": self._production.producer_id,
            "Producer-Epoch": str(batch.epoch),
            "Producer-Seq": str(batch.seq),
            **({"Content-Type": content_type} if batch.messages else {}),
            **({"Stream-Closed": "true"} if batch.closes else {}),
            # Each batch names the position before it, so that no other writer of the same epoch gets between two.
            **({} if batch.resumes_from is None else {"Producer-Resumes-From": batch.resumes_from}),
            **({"Producer-Position": batch.position} if batch.position else {}),
        }
        body = join(kind_of(content_type), batch.messages) if batch.messages else None
        return self._transport.ask("POST", self._url, headers=headers, content=body)

    def _predecessors(self, batch: Batch) -> None:
        with self._changed:
            self._changed.wait_until(lambda: self._given_up() or not self._production.follows(batch))

    def _require_own(self, batch: Batch, response: Answer) -> None:
        """Refuse to take another writer's batches for those of this one, which resumed from the same position."""
        last = int(_last_of(response, batch))
        if batch.resumes_from is not None and last >= self._production.next_seq:
            raise ProducerReused(
                f"another run of the producer {self._production.producer_id!r} writes in epoch {batch.epoch} too"
            )

    def _taken_for_another(self, batch: Batch, response: Answer, *, uncertain: bool) -> bool:
        """Tell whether the first batch was taken for one that a producer of this name has sent before.

        Under an epoch of its own it may be a repetition of its own, if an answer was lost: then it is the last that the
        server knows of (§5.2.1).
        """
        repeated = response.status_code == _DUPLICATE and "Stream-Closed" not in response.headers
        own = uncertain and self._auto_claim and not self._contested and _last_of(response, batch) == str(batch.seq)
        taken, self.known_new = repeated and not (self.known_new or own), True
        return taken

    def _accepted(self, batch: Batch, response: Answer) -> None:
        with self._changed:
            self._production.accepted(batch)
            self._written = True
            self.position = batch.position or self.position
            offset = response.headers.get("Stream-Next-Offset")
            self.offset = max(self.offset or "", offset) if offset else self.offset
            self._changed.notify_all()

    def _claim(self, batch: Batch, fence: StaleEpoch, *, uncertain: bool) -> None:
        """Take over from whoever was there before. Whoever comes once it has written is newer, and stays."""
        epoch = header_of(fence, "Producer-Epoch")
        if not self._auto_claim or epoch is None or self._written:
            raise fence
        self._take_over(batch, int(epoch), uncertain=uncertain)

    def _take_over(self, batch: Batch, epoch: int, *, uncertain: bool) -> None:
        """Claim the next epoch, and send again what certainly did not arrive."""
        name = self._production.producer_id
        if uncertain:
            raise AppendUncertain(
                f"the producer {name!r} is not the only one of its name, and messages were under way: "
                "they may have been appended or not"
            )
        if not self._auto_claim:
            raise ProducerReused(
                f"the producer {name!r} has written in epoch {epoch} before, so this was taken for a repetition: "
                "give a higher epoch, or auto_claim=True to take over"
            )
        with self._changed:
            # Others may claim the same epoch: its first batch has to be known as new again.
            self.known_new, self._contested = False, True
            self._production.fenced(batch, epoch)
            self._changed.notify_all()


def _last_of(response: Answer, batch: Batch) -> str:
    """Give the last number that the server knows of this producer; one that does not say it means this batch's."""
    return response.headers.get("Producer-Seq", str(batch.seq))


def _require_taken(response: Answer) -> None:
    if not response.headers.keys() & {"stream-next-offset", "producer-seq"}:
        raise NotAStream("the answer to an append has neither Stream-Next-Offset nor Producer-Seq: is this a stream?")
