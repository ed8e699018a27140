"""Who may do what: identities, and what is granted to them."""
