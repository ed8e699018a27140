"""Postgres, in both directions: changes of tables become messages of streams, messages become rows of tables.

The source `everbrook_postgres` is in `capture_source`, the sink in `table_query`. Each writes exactly once: a batch of
the source is fixed by two positions, the rows of a sink and their positions are one transaction.
"""
