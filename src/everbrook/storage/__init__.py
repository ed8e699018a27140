"""Storage: keeps each change entirely or not at all, and reads bytes back. It stores what was decided."""
