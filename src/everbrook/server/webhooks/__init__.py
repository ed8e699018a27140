"""Webhooks: what they say, where they may go, how they are signed and delivered, and the tokens of workers."""
