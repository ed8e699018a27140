# Written by tools/mirror.py from src/everbrook/client/_async/delivery.py: change that file, not this one.
"""The delivery of a producer's batches: each is sent again until the server has accepted it (§5.2.1)."""

import logging
from collections.abc import Callable

from everbrook.client._sync.concurrency import Condition
from everbrook.client._sync.transport import Transport
from everbrook.client._sync.wire import Response
from everbrook.client.content import join, kind_of
from everbrook.client.errors import AppendUncertain, InvalidAnswer, NotAStream, ProducerReused
from everbrook.client.production import ProducerBatch, Production
from everbrook.client.refusals import header_of
from everbrook.client.wire.request import ConnectionBroken
from everbrook.protocol.errors import ProtocolError, SequenceGap, StaleEpoch

logger = logging.getLogger(__name__)

_DUPLICATE = 204


class Delivery:
    """Sends the batches of one producer. Several workers may call `deliver` at a time, each with its own batch."""

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
        """Deliver batches of a `production`, whose lock is `changed`, until `given_up` returns true.

        `known_new` means that no producer of this id can have used the same sequence numbers, or that this is harmless.
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
        self._last_place = -1
        """The place of the last accepted batch. The answers to several requests in flight come in any order."""
        self.offset: str | None = None
        self.position: str | None = None
        """The stored position of the producer."""

    def deliver(self, batch: ProducerBatch) -> None:
        """Send a batch until the server has accepted it, or until the producer has failed with another batch."""
        attempts = self._transport.attempts(f"POST {self._url}")
        early = False
        while not self._given_up():
            try:
                response = self._send(batch)
            except SequenceGap:
                # The batch overtook earlier ones, on another connection. After those, another gap is an error.
                if early and not self._production.follows(batch):
                    raise
                early = True
                self._wait_for_predecessors(batch)
            except StaleEpoch as fence:
                self._claim(batch, fence, uncertain=attempts.uncertain)
                return
            except (ConnectionBroken, ProtocolError) as failure:
                self._pause(attempts.delay_after(failure), failure)
            else:
                _require_stream(response)
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

    def _send(self, batch: ProducerBatch) -> Response:
        content_type = self._content_type()
        headers = {
            "Producer-Id": self._production.producer_id,
            "Producer-Epoch": str(batch.epoch),
            "Producer-Seq": str(batch.seq),
            **({"Content-Type": content_type} if batch.messages else {}),
            **({"Stream-Closed": "true"} if batch.closes else {}),
            # Each batch names the position before it, so that another writer of the same epoch can't append between.
            **({} if batch.resumes_from is None else {"Producer-Resumes-From": batch.resumes_from}),
            **({"Producer-Position": batch.position} if batch.position else {}),
        }
        body = join(kind_of(content_type), batch.messages) if batch.messages else None
        return self._transport.ask("POST", self._url, headers=headers, content=body)

    def _wait_for_predecessors(self, batch: ProducerBatch) -> None:
        with self._changed:
            self._changed.wait_until(lambda: self._given_up() or not self._production.follows(batch))

    def _require_own(self, batch: ProducerBatch, response: Response) -> None:
        """Raise `ProducerReused` if the response shows that another writer resumed from the same position."""
        if batch.resumes_from is None:
            return
        last = _last_of(response, batch)
        if not last.isdecimal():
            raise InvalidAnswer(f"the Producer-Seq of the response to an append must be a number, got {last!r}")
        if int(last) >= self._production.next_seq:
            raise ProducerReused(
                f"another run of the producer {self._production.producer_id!r} writes in epoch {batch.epoch} too"
            )

    def _taken_for_another(self, batch: ProducerBatch, response: Response, *, uncertain: bool) -> bool:
        """Return whether the server took a batch for a duplicate of one from an earlier producer of this id (§5.2.1).

        | duplicate | known new | own | another's |                                                               |
        | --------- | --------- | --- | --------- | ------------------------------------------------------------- |
        | no        | -         | -   | no        | the batch was stored                                          |
        | yes       | yes       | -   | no        | no other producer can have used its number                    |
        | yes       | no        | yes | no        | an earlier attempt stored it, and its response was lost         |
        | yes       | no        | no  | yes       | its number was used before: this batch is not in the stream   |

        A duplicate is known to be this producer's own where it has claimed the epoch uncontested, a response was lost,
        and the batch is the last that the server knows.
        """
        duplicate = response.status_code == _DUPLICATE and "Stream-Closed" not in response.headers
        own = uncertain and self._auto_claim and not self._contested and _last_of(response, batch) == str(batch.seq)
        # The batches after the first follow one that is settled, so their numbers are this producer's.
        known_new, self.known_new = self.known_new, True
        return duplicate and not known_new and not own

    def _accepted(self, batch: ProducerBatch, response: Response) -> None:
        with self._changed:
            self._production.accepted(batch)
            if batch.place > self._last_place:
                self._last_place, self.position = batch.place, batch.position or self.position
            offset = response.headers.get("Stream-Next-Offset")
            self.offset = max(self.offset or "", offset) if offset else self.offset
            self._changed.notify_all()

    def _claim(self, batch: ProducerBatch, fence: StaleEpoch, *, uncertain: bool) -> None:
        """Claim the next epoch after a fence, unless this producer has written: then the fencing one is newer."""
        epoch = header_of(fence, "Producer-Epoch")
        if not self._auto_claim or epoch is None or self._last_place >= 0:
            raise fence
        self._take_over(batch, int(epoch), uncertain=uncertain)

    def _take_over(self, batch: ProducerBatch, epoch: int, *, uncertain: bool) -> None:
        """Claim the next epoch, and send the batches again. It is certain that the server did not accept them."""
        name = self._production.producer_id
        if uncertain:
            raise AppendUncertain(
                f"another producer uses the id {name!r}, and messages were in flight, which may have been appended or "
                "not: read the end of the stream before you send them again"
            )
        if not self._auto_claim:
            raise ProducerReused(
                f"the producer {name!r} has written in epoch {epoch} before, so the server took this batch "
                "for a duplicate: pass a higher epoch, resume=True to continue, or auto_claim=True to take over"
            )
        with self._changed:
            # Another producer may claim the same epoch, so a duplicate of the first batch must be recognized again.
            self.known_new, self._contested = False, True
            self._production.fenced(batch, epoch)
            self._changed.notify_all()


def _last_of(response: Response, batch: ProducerBatch) -> str:
    """Return the last sequence number that the server knows of this producer; that of the batch if it does not say."""
    return response.headers.get("Producer-Seq", str(batch.seq))


def _require_stream(response: Response) -> None:
    if not response.headers.keys() & {"stream-next-offset", "producer-seq"}:
        raise NotAStream(
            "the response to an append has neither Stream-Next-Offset nor Producer-Seq: is this the URL of a stream?"
        )
