"""Streams into tables of Postgres, exactly once: the rows of a table and how far it has come are one transaction."""
