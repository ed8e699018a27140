"""Tables and streams kept in step both ways, while everything that does it is killed: at the end they agree exactly."""
