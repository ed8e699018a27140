"""A table of the lake under fire: see `killing`."""
