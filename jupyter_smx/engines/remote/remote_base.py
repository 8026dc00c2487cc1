"""Engines with hosts on other machines: what needs no machine, as configuration, record, and description of hosts."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traitlets import Bool, Dict, Float, List, Unicode, default

from jupyter_smx.controller_launch import data_dir
from jupyter_smx.engines.base import Capabilities, ClusterRequest, Engine
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.engines.machine.host_folder import description
from jupyter_smx.engines.remote import interpreters
from jupyter_smx.engines.remote.environments import DEFAULT_LIMIT
from jupyter_smx.engines.remote.record_folder import read_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.base import HostSpec
    from jupyter_smx.engines.machine.addresses import HostNetwork

_AWS_FRONT: Final = "stream" if sys.platform == "linux" else "none"
"""The front has a socket on Linux only."""


class RemoteEngineBase(Engine):
    """The configuration of an engine with hosts on other machines, its folder here, and the description of a host."""

    data_dir = Unicode(
        help="Folder of this machine with the record of clusters; empty means Jupyter's data folder, ``smx`` in it."
    ).tag(config=True)
    folder = Unicode(
        "", help="Folder of hosts on each machine; empty means ~/.local/share/jupyter_smx. A machine may have its own."
    ).tag(config=True)
    python = Unicode(
        "",
        help="Interpreter of jobs that name none, and of the agent; empty means python3. A machine may have its own.",
    ).tag(config=True)
    environments = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="Shell lines by name, such as ``module load python``, that ``--python NAME`` runs before python3.",
    ).tag(config=True)
    shared_folders = List(
        Unicode(),
        help=(
            "Folders that the machines see at the same paths as this one, such as a network disk. Their files are not "
            "sent, and checkpoints and continuous outputs may lie there."
        ),
    ).tag(config=True)
    environment_limit = Float(
        DEFAULT_LIMIT, min=1.0, help="Seconds that the installation of ``--requirements`` may take."
    ).tag(config=True)
    environments_unused = Float(
        30 * 86_400.0,
        min=0.0,
        help="Seconds after which environments of ``--requirements`` are deleted on a machine, if no job used them.",
    ).tag(config=True)
    isolate = Bool(
        default_value=True,
        help="Whether hosts get their own /opt/ml, /tmp and /etc/hosts, if the machine allows mount namespaces.",
    ).tag(config=True)
    launch_timeout = Float(60.0, min=0.1, help="Seconds until a started agent must listen.").tag(config=True)
    release_timeout = Float(20.0, min=0.1, help="Seconds until killed processes of a host must be gone.").tag(
        config=True
    )
    grace = Float(
        120.0, min=0.0, help="Seconds between SIGTERM and SIGKILL when a host stops its job without a controller."
    ).tag(config=True)
    notice_grace = Float(
        30.0, min=0.0, help="Seconds that a host has to end its job when its agent receives SIGTERM."
    ).tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return os.fspath(data_dir())

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities: interpreters, GPUs and environments are those of the machines."""
        shared = tuple(self.shared_folders)
        return Capabilities(
            interpreters="remote",
            own_gpus=True,
            builds_environments=True,
            host_addresses=True,
            shared_folders=shared,
            aws_front=_AWS_FRONT,
        )

    def clusters_folder(self) -> Path:
        """Return the folder with the record of each cluster."""
        return self._folder / "clusters"

    def interpreter_names(self) -> Sequence[str]:
        """List the named environments of the engine and of its machines."""
        return sorted(self._environments())

    async def resolve_interpreter(self, word: str) -> str:
        """Resolve a path of the machines, or a named environment.

        :raises RefusedError: it is neither.
        """
        return interpreters.resolve(word, self._environments())

    @property
    def _folder(self) -> Path:
        """Return the folder that all engines of one kind share, since they may share machines."""
        return Path(self.data_dir) / "engines" / type(self).name

    @property
    def _owner(self) -> str:
        """Return the id of the data folder, which marks this controller's hosts among those of the same account."""
        return read_id(self._folder / "id", secrets.token_hex)

    def _environments(self) -> dict[str, str]:
        """Return the shell lines of each named environment."""
        return dict(self.environments)

    def _description(self, request: ClusterRequest, host: HostSpec, network: HostNetwork | None) -> dict[str, object]:
        common = description(
            request,
            host,
            start_method="fork",
            isolate=bool(self.isolate),
            grace=float(self.grace),
            limits={},
            network=network,
            transfer_python="",
        )
        return {**common, "notice_grace": float(self.notice_grace), "archive": agent_zipapp.file_name()}
