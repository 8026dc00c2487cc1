"""Define the exceptions that cells raise for failed jobs."""
