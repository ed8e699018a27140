"""What every command does with the terminal: options, input, output."""
