"""Load: thousands of readers and hundreds of producers on one server, which restarts in place under all of them."""
