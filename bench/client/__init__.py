"""How fast our client is beside the official TypeScript client, both on our server."""
