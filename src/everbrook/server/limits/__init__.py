"""What one client, and all of them together, may ask of the server."""
