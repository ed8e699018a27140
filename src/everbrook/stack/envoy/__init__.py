"""Envoy, the proxy in front of the server: where its program is, and what it is told."""
