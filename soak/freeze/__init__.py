"""A hostile tenant beside a normal one: what the first does in its own bucket must not make the second wait."""
