"""Subscriptions: durable cursors that wake workers when streams have news (§6, §7)."""
