"""Subscriptions while a server runs: which streams wake which workers, and what is timed (§6, §7).

What is decided on them is in `protocol/subscriptions`; HTTP, webhooks and signatures are in `server`.
"""
