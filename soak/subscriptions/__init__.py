"""Workers and receivers of webhooks while the server is killed: every event arrives, no cursor moves back."""
