"""The commands, each with what it alone needs. A command is imported when it is run."""
