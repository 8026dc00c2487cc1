"""What the agent and its processes refuse to do."""

from __future__ import annotations


class RefusalError(Exception):
    """Something cannot be done here; the text is a sentence for the user, and says what to do."""
