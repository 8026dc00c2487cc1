"""Pure decisions: what is next for a job or a cluster, what may be reused, what it costs; no clock, no input."""
