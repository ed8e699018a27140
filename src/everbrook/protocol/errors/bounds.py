"""Refusals of what would be more than there may be: in a batch, a stream, a bucket, the store."""

from everbrook.protocol.errors.families import PayloadTooLarge
from everbrook.protocol.errors.refusal import ProtocolError


class BatchTooLarge(PayloadTooLarge):
    """A JSON batch holds more values than the server splits at once."""

    code = "batch_too_large"


class StreamFull(PayloadTooLarge):
    """The append would make the stream larger than the server allows."""

    code = "stream_full"


class MemoryFull(PayloadTooLarge):
    """The append would make all streams together larger than the server allows."""

    code = "memory_full"


class StoreFull(PayloadTooLarge):
    """The change would make the whole store larger than the server allows."""

    code = "store_full"


class BucketFull(PayloadTooLarge):
    """The change would exceed the quota of its bucket."""

    code = "bucket_full"


class WakeStreamFull(PayloadTooLarge):
    """A wake stream holds as many wakes as the server allows."""

    code = "wake_stream_full"


class TooManySubscriptions(PayloadTooLarge):
    """There are as many subscriptions as the server allows, in a bucket or on the base surface."""

    code = "too_many_subscriptions"


class TooManyProducers(ProtocolError):
    """The stream knows as many producers as the server allows."""

    status = 429
    code = "too_many_producers"
    retry_after_secs = 60
