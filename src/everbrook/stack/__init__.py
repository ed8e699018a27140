"""The whole deployment on one machine: server, Postgres, the pipeline between them, each a process of its own."""
