"""Buckets: namespaces that are created before there is a stream in them, and deleted when there is none (002 §1)."""

from everbrook.protocol.change import Drop, Write
from everbrook.protocol.commands import CreateBucket, DeleteBucket
from everbrook.protocol.content_type import JSON
from everbrook.protocol.errors import BucketExists, BucketNotEmpty, BucketNotFound, quoted
from everbrook.protocol.outcomes import Created, Decision, Deleted
from everbrook.protocol.path import bucket_prefix, bucket_record
from everbrook.protocol.state import Head, Identity
from everbrook.protocol.view import View


def decide_create_bucket(view: View, command: CreateBucket) -> Decision:
    """Create a bucket (002 §1.2)."""
    name = bucket_record(command.bucket_id)
    if view.stream(name):
        raise BucketExists(f"the bucket {quoted(command.bucket_id)} exists")
    head = Head(
        Identity(name, command.incarnation, JSON, JSON, command.now, retention=command.retention), 0, command.now
    )
    return Decision(Created(head), (Write(head, created=True),))


def decide_delete_bucket(view: View, command: DeleteBucket) -> Decision:
    """Delete a bucket that no stream is in (002 §1.5)."""
    bucket = view.stream(bucket_record(command.bucket_id))
    if bucket is None:
        raise BucketNotFound(f"there is no bucket {quoted(command.bucket_id)}")
    if view.populated(bucket_prefix(command.bucket_id)):
        raise BucketNotEmpty(f"streams are in the bucket {quoted(command.bucket_id)}; delete them first")
    return Decision(Deleted(), (Drop(bucket.head),))
