"""server/handlers."""
