"""What a host has imported for jobs to come, and what it could not."""

from __future__ import annotations

from typing import Any, Dict, List


class Preload:
    """What the zygote has imported, what it could not import and why, and what is being tried."""

    def __init__(self) -> None:
        self.loaded: List[str] = []
        self.failed: Dict[str, str] = {}
        self.pending: List[str] = []

    def view(self) -> Dict[str, Any]:
        """Give it as it travels."""
        return {"loaded": self.loaded, "failed": self.failed, "pending": self.pending}
