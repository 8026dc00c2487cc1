"""controller/transfer."""
