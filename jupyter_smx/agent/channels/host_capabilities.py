"""What a host can do for the channels of a job."""

from __future__ import annotations

from typing import NamedTuple

from jupyter_smx.agent.stores import worker_client


class ChannelCapabilities(NamedTuple):
    """What this host can do for channels: where it keeps inputs, where it shows sources; '' where nothing is mounted.

    ``layers`` says whether a channel can be a layer over what is kept, ``means`` how objects are brought; ``trash`` has
    what earlier jobs left, which an idle host deletes, and one without room at once. In ``sealed`` nobody can write.
    """

    store: str = ""
    shown: str = ""
    layers: bool = False
    reason: str = ""
    means: worker_client.WorkerOptions = worker_client.WorkerOptions()
    trash: str = ""
    sealed: str = ""
