"""The resources of the application: each parses requests, lets the engine decide, and renders the outcome.

They know nothing of the transports, which give their responses to the client.
"""
