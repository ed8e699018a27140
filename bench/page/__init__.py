"""How quick the web page is, in a real browser on this machine."""
