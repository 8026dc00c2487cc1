"""Who runs a script in several processes, on which hosts, and by which words: sagemaker-training's rules. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from jupyter_smx.agent import toolkit
from jupyter_smx.agent.failure import RefusalError
from jupyter_smx.agent.hyperparameters import split
from jupyter_smx.agent.script import is_driven

if TYPE_CHECKING:
    from jupyter_smx.agent.place import Place

RUNNERS = (("sagemaker_torch_distributed_enabled", "torchrun"), ("sagemaker_mpi_enabled", "mpi"))
"""Hyperparameters of the SDK's, and what each lets the toolkit start."""


class Distribution(NamedTuple):
    """A job's distribution as all of its hosts see it.

    ``processes`` run on each of ``hosts``, ``hosts[0]`` leads, ``options`` are further words for mpirun.
    """

    runner: str
    groups: List[str]
    hosts: List[str]
    processes: int
    options: str = ""


def _processes(framework: Dict[str, Any], default: int) -> int:
    """Read how many processes a host has.

    :raises RefusalError: that is no number of processes.
    """
    given = framework.get("sagemaker_mpi_num_of_processes_per_host")
    try:
        count = default if given is None else int(given)
    except (TypeError, ValueError, OverflowError):
        count = 0
    if count < 1:
        raise RefusalError(
            f"hyperparameters: sagemaker_mpi_num_of_processes_per_host is {given!r}; it is a number of processes, "
            "1 or more."
        )
    return count


def chosen(spec: Dict[str, Any], place: Place) -> Optional[Distribution]:
    """Read a job's distribution from its hyperparameters; None where it has none.

    Without a choice of groups it is the group of this host. Hosts keep the order that their group lists them in. That
    of a processing job is no hyperparameter, since its script would see that.

    :raises RefusalError: a hyperparameter of the distribution cannot be what it is.
    """
    if spec["kind"] == "process":
        return Distribution("pyspark", [place.group], place.hosts, 1) if spec["distribution"] == "pyspark" else None
    _own, framework = split(spec.get("hyperparameters") or {})
    runner = next((name for flag, name in RUNNERS if framework.get(flag) is True), "")
    if not runner or is_driven(spec):
        return None
    groups = toolkit.distribution_groups(framework, place)
    gpus = len(spec.get("gpus") or []) or place.gpus
    hosts = toolkit.leading_hosts(groups, place) or sorted(place.hosts)
    options = framework.get("sagemaker_mpi_custom_mpi_options") or ""
    return Distribution(runner, groups, hosts, _processes(framework, gpus or 1), str(options))


def here(spec: Dict[str, Any], place: Place) -> Optional[Distribution]:
    """Give the distribution that this host takes part in; hosts of other groups run the script plainly."""
    found = chosen(spec, place)
    return found if found is not None and place.group in found.groups else None


def torchrun_words(found: Distribution, place: Place) -> List[str]:
    """Give what stands between ``torchrun`` and the script."""
    words = ["--nnodes", str(len(found.hosts)), "--nproc_per_node", str(found.processes)]
    if len(found.hosts) > 1:
        words += ["--master_addr", place.reach(found.hosts[0]), "--master_port", str(place.port)]
        words += ["--node_rank", str(found.hosts.index(place.host))]
    return words


def variables(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give the variables by which the processes of several hosts find each other; those of the wish win.

    SageMaker's image of PyTorch sets them for every job, so a script that starts a process group itself finds them.
    """
    if spec["kind"] != "train" or is_driven(spec):
        return {}
    found = here(spec, place)
    ours: Dict[str, str] = {}
    if found is not None or len(place.hosts) > 1:
        _own, framework = split(spec.get("hyperparameters") or {})
        master = toolkit.master(toolkit.distribution_groups(framework, place), place)
        ours.update(MASTER_ADDR=place.reach(master), MASTER_PORT=str(place.port))
        ours.update(NCCL_SOCKET_IFNAME=place.interface, GLOO_SOCKET_IFNAME=place.interface)
    if found is not None and found.runner == "torchrun":
        ours.update(NCCL_PROTO="simple")
        if found.processes > 1:
            ours.update(OMP_NUM_THREADS="1")  # as torchrun does, so that ranks do not fight for the host's cores
    wished = spec.get("environment") or {}
    return {name: value for name, value in ours.items() if name not in wished}
