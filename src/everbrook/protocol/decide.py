"""The dispatch of commands to the rules that decide them.

    decide(view, command) -> Decision(outcome, change)      raises a ProtocolError to refuse

Every storage mode and every transport uses this function, so a rule of the protocol exists once.
"""

from collections.abc import Callable
from typing import Any

from everbrook.protocol.append import decide_append
from everbrook.protocol.commands import (
    Append,
    Command,
    Create,
    CreateBucket,
    Decision,
    Delete,
    DeleteBucket,
    DeleteSnapshot,
    Expire,
    PublishSnapshot,
    Retain,
    Trim,
)
from everbrook.protocol.create import decide_create, decide_create_bucket, decide_delete_bucket
from everbrook.protocol.lifetime import decide_delete, decide_expire
from everbrook.protocol.retention import decide_delete_snapshot, decide_publish, decide_retain, decide_trim
from everbrook.protocol.subscriptions import rules, subscription as subscriptions
from everbrook.protocol.view import View

_RULES: dict[type, Callable[[View, Any], Decision]] = {
    Append: decide_append,
    Create: decide_create,
    Delete: decide_delete,
    Expire: decide_expire,
    PublishSnapshot: decide_publish,
    DeleteSnapshot: decide_delete_snapshot,
    Retain: decide_retain,
    Trim: decide_trim,
    CreateBucket: decide_create_bucket,
    DeleteBucket: decide_delete_bucket,
    subscriptions.Subscribe: rules.decide_subscribe,
    subscriptions.Unsubscribe: rules.decide_unsubscribe,
    subscriptions.LinkStreams: rules.decide_link,
    subscriptions.UnlinkStream: rules.decide_unlink,
    subscriptions.WakeUp: rules.decide_wake,
    subscriptions.Claim: rules.decide_claim,
    subscriptions.Report: rules.decide_report,
    subscriptions.Lapse: rules.decide_lapse,
    subscriptions.Deliver: rules.decide_deliver,
    subscriptions.Compact: rules.decide_compact,
}


def decide(view: View, command: Command | subscriptions.SubscriptionCommand) -> Decision:
    """Return the outcome of a command and the change that it makes, or raise the refusal."""
    return _RULES[type(command)](view, command)
