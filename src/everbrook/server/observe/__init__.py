"""What the server tells of its work: metrics, request ids, the access and audit logs, traces."""
