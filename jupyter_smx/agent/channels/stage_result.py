"""What the staging of a job's channels made."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from jupyter_smx.agent.channels import symlinks
from jupyter_smx.agent.stores import digest


class Staged:
    """What a staging made: the descriptions of channels, what was learnt, what is to be mounted, and what to say."""

    def __init__(self, limit: int, known: digest.Known) -> None:
        self.limit = limit
        self.known = dict(known)
        self.room = digest.KEPT
        self.inputs: List[Dict[str, Any]] = []
        self.fresh: digest.Known = {}
        self.mounts: List[Dict[str, Any]] = []
        self.notes: List[str] = []
        self.lazy: List[str] = []
        self.keys: Set[str] = set()
        self.ways = symlinks.WaysOut()
        """What is known of the links of the channel that is presented, which are looked at once."""

    def learn(self, described: Dict[str, Any], fresh: digest.Known) -> None:
        """Take down what a channel is, and remember its files as far as there is room for those of this job."""
        self.inputs.append(described)
        if fresh and described["files"] <= self.room:
            self.fresh.update(fresh)
            self.known.update(fresh)
        if described["method"] == "content":
            self.room -= described["files"]

    def answer(self) -> Dict[str, Any]:
        """Give it as it travels from an errand to the agent."""
        said = {"inputs": self.inputs, "fresh": self.fresh, "lazy": self.lazy}
        return dict(said, mounts=self.mounts, notes=self.notes)
