"""One job on one host, from what it gets to its last word."""
