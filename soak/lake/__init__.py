"""Tables of the lake under fire: see `killing`."""
