"""The `acid` engine: one journal in front of LMDB. Data, metadata and producers are durable together or not at all."""
