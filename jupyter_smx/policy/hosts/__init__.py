"""Name hosts, shard inputs among them, and validate what their agents send."""
