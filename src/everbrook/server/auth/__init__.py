"""Authentication and authorization: who sends a request, and what is granted to that identity."""
