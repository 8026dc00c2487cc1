"""controller/agents."""
