"""Run notebook cells as asynchronous jobs on warm hosts, here or on an existing engine.

Each layer is a package. The folder has twenty entries: modules that several layers import before anything else lie
beside the packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    # mypy and editors read these; at run time __getattr__ imports each when it is first used.
    from jupyter_smx.kernel.api.functions import diff as diff
    from jupyter_smx.kernel.api.functions import job as job
    from jupyter_smx.kernel.api.functions import jobs as jobs
    from jupyter_smx.kernel.api.functions import pools as pools
    from jupyter_smx.kernel.api.functions import process as process
    from jupyter_smx.kernel.api.functions import rerun as rerun
    from jupyter_smx.kernel.api.functions import train as train
    from jupyter_smx.kernel.api.map import array as array
    from jupyter_smx.kernel.api.map import map as map  # noqa: A004
    from jupyter_smx.kernel.api.remote import remote as remote
    from jupyter_smx.kernel.failures.exceptions import JobFailed as JobFailed
    from jupyter_smx.kernel.failures.exceptions import JobStopped as JobStopped
    from jupyter_smx.kernel.failures.exceptions import MissingVariables as MissingVariables
    from jupyter_smx.kernel.handles.job import Job as Job
    from jupyter_smx.kernel.handles.job_array import JobArray as JobArray
    from jupyter_smx.model.errors import SmxError as SmxError
    from jupyter_smx.model.spec.channel import Channel as Channel
    from jupyter_smx.model.spec.channel import Output as Output
    from jupyter_smx.model.spec.instance import InstanceGroup as InstanceGroup

_PUBLIC = {
    "Channel": "jupyter_smx.model.spec.channel",
    "InstanceGroup": "jupyter_smx.model.spec.instance",
    "Job": "jupyter_smx.kernel.handles.job",
    "JobArray": "jupyter_smx.kernel.handles.job_array",
    "JobFailed": "jupyter_smx.kernel.failures.exceptions",
    "JobStopped": "jupyter_smx.kernel.failures.exceptions",
    "MissingVariables": "jupyter_smx.kernel.failures.exceptions",
    "Output": "jupyter_smx.model.spec.channel",
    "SmxError": "jupyter_smx.model.errors",
    "array": "jupyter_smx.kernel.api.map",
    "diff": "jupyter_smx.kernel.api.functions",
    "job": "jupyter_smx.kernel.api.functions",
    "jobs": "jupyter_smx.kernel.api.functions",
    "map": "jupyter_smx.kernel.api.map",
    "pools": "jupyter_smx.kernel.api.functions",
    "process": "jupyter_smx.kernel.api.functions",
    "remote": "jupyter_smx.kernel.api.remote",
    "rerun": "jupyter_smx.kernel.api.functions",
    "train": "jupyter_smx.kernel.api.functions",
}
"""What ``import jupyter_smx as smx`` offers, and where it lives; loaded when it is first named."""


def __getattr__(name: str) -> Any:
    # Loading these, or reading the version, costs milliseconds that a kernel should not spend before its first cell.
    if name in _PUBLIC:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(_PUBLIC[name]), name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("jupyter-smx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_PUBLIC, "__version__"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to a kernel: ``%load_ext jupyter_smx``."""
    from jupyter_smx.kernel.magics.magics import load  # noqa: PLC0415

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics out of a kernel; jobs go on."""
    from jupyter_smx.kernel.magics.magics import unload  # noqa: PLC0415

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-smx"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from jupyter_smx.server.app import SmxServerExtension  # noqa: PLC0415

    return [{"module": "jupyter_smx", "app": SmxServerExtension}]
