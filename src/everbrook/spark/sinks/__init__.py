"""What the sinks for streams, tables of Postgres and tables of the lake share."""
