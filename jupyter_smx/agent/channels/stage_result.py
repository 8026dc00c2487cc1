"""What the staging of a job's channels made."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from jupyter_smx.agent.channels import symlinks
from jupyter_smx.agent.stores import digest


class StageResult:
    """What a staging made: the descriptions of channels, what was learnt, what is to be mounted, and what to say."""

    def __init__(self, limit: int, known: digest.DigestCache) -> None:
        self.limit = limit
        self.known = dict(known)
        self.digest_quota = digest.MAX_REMEMBERED
        self.inputs: List[Dict[str, Any]] = []
        self.fresh: digest.DigestCache = {}
        self.mounts: List[Dict[str, Any]] = []
        self.notes: List[str] = []
        self.lazy: List[str] = []
        self.keys: Set[str] = set()
        self.link_scan = symlinks.LinkScan()
        """What is known of the links of the channel that is presented, which are looked at once."""

    def add_channel(self, described: Dict[str, Any], fresh: digest.DigestCache) -> None:
        """Take down what a channel is, and remember its files as far as there is room for those of this job."""
        self.inputs.append(described)
        if fresh and described["files"] <= self.digest_quota:
            self.fresh.update(fresh)
            self.known.update(fresh)
        if described["method"] == "content":
            self.digest_quota -= described["files"]

    def to_json(self) -> Dict[str, Any]:
        """Give it as it travels from an errand to the agent."""
        said = {"inputs": self.inputs, "fresh": self.fresh, "lazy": self.lazy}
        return dict(said, mounts=self.mounts, notes=self.notes)
