"""Subscriptions of a running server: which streams wake which workers, and the timers of leases and retries (§6, §7).

The rules are in `protocol/subscriptions`; HTTP, webhooks and signatures are in `server`.
"""
