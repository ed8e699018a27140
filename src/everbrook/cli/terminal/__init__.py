"""The terminal side of commands: options, input, output."""
