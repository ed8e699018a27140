"""Observability: metrics, request ids, the access and audit logs, traces."""
