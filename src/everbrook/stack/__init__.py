"""The whole deployment on one machine: server, Postgres, pipeline, heartbeat and Envoy, each a process."""
