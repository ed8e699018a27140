"""Webhooks: where one may go, how it is signed and delivered, and the token that its receiver answers with."""
