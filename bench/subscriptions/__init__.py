"""What subscriptions cost: 10,000 of them with globs over 100,000 streams.

Appends beside the same appends without any subscription, how soon a wake goes out, and what a start takes.
"""
