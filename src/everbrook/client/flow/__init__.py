"""What the client decides without input or output: how reads resume and how producers number what they send."""
