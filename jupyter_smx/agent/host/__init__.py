"""One host: what it is, what it keeps of its jobs, and when it ends."""
