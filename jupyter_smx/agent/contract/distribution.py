"""Launch plans of distributed scripts by sagemaker-training's rules: launcher, hosts, arguments. Pure."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple

from jupyter_smx.agent.contract import tfconfig, training_toolkit
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError, split
from jupyter_smx.agent.contract.script import is_sdk3_driven
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

_MIRRORS = "sagemaker_multi_worker_mirrored_strategy_enabled"
RUNNERS = (
    ("sagemaker_torch_distributed_enabled", "torchrun"),
    ("sagemaker_parameter_server_enabled", tfconfig.PARAMETER_SERVER),
    ("sagemaker_mpi_enabled", "mpi"),
    (_MIRRORS, tfconfig.MIRRORED),
)
"""Hyperparameters of the SDK's, and what each lets SageMaker's images start; the first that is set counts."""
_RANK_SETTINGS = (
    ("pml", "ob1"),
    ("btl", "^openib"),
    ("orte_abort_on_non_zero_status", "1"),
    ("btl_vader_single_copy_mechanism", "none"),
)
"""Open MPI's settings with which both contracts start ranks."""
_MOST_HOST_BITS = 24
"""Of a network that is no larger than a network of class A, such as 10.0.0.0/8."""


class Distribution(NamedTuple):
    """A job's distribution as all of its hosts see it.

    ``processes`` run on each of ``hosts``, ``hosts[0]`` leads. For mpirun are ``options``, which are further words, and
    ``total``, how many run on all hosts where these need not be full. ``driven`` is started by SDK 3's drivers.
    """

    runner: str
    groups: List[str]
    hosts: List[str]
    processes: int
    options: str = ""
    total: Optional[int] = None
    driven: bool = False


def _count(framework: Dict[str, Any], name: str) -> Optional[int]:
    """Read a number of processes, None where it is not given.

    :raises HyperparameterError: it is no number.
    """
    given = framework.get(name)
    if given is None:
        return None
    try:
        count = int(given)
    except (TypeError, ValueError, OverflowError):
        count = 0
    if count < 1:
        raise HyperparameterError(f"hyperparameters: {name} is {given!r}; it must be a number of processes, 1 or more.")
    return count


def read_distribution(spec: CompleteSpec, host_info: HostInfo) -> Optional[Distribution]:
    """Read a job's distribution from its hyperparameters, or by SDK 3's contract from the request; None without one.

    Without a choice of groups it is the group of this host. Hosts keep the order of their group's list. The
    distribution of a processing job is no hyperparameter, because its script would see that.

    :raises HyperparameterError: a hyperparameter of the distribution has an invalid value.
    """
    if spec["kind"] == "process":
        return (
            Distribution("pyspark", [host_info.group], host_info.hosts, 1)
            if spec["distribution"] == "pyspark"
            else None
        )
    if is_sdk3_driven(spec):
        return _read_sdk3_distribution(spec, host_info)
    _own, framework = split(spec.get("hyperparameters") or {})
    runner = _runner(framework, host_info)
    if not runner:
        return None
    groups = training_toolkit.distribution_groups(framework, host_info)
    gpus = _gpus(spec, host_info)
    hosts = training_toolkit.leading_hosts(groups, host_info) or sorted(host_info.hosts)
    if runner in tfconfig.STRATEGIES:
        return Distribution(runner, groups, hosts, 1)
    processes = _count(framework, "sagemaker_mpi_num_of_processes_per_host") or gpus or 1
    options = framework.get("sagemaker_mpi_custom_mpi_options") or ""
    return Distribution(
        runner, groups, hosts, processes, str(options), _count(framework, "sagemaker_mpi_num_processes")
    )


def _runner(framework: Dict[str, Any], host_info: HostInfo) -> str:
    wanted = [name for flag, name in RUNNERS if framework.get(flag)]
    if len(host_info.hosts) == 1 and tfconfig.PARAMETER_SERVER in wanted:
        wanted.remove(tfconfig.PARAMETER_SERVER)  # SageMaker starts none for a single host
    return wanted[0] if wanted else ""


def _gpus(spec: CompleteSpec, host_info: HostInfo) -> int:
    return len(spec.get("gpus") or []) or host_info.gpus


def _read_sdk3_distribution(spec: CompleteSpec, host_info: HostInfo) -> Optional[Distribution]:
    """Read a distribution of SDK 3's: it is over all hosts, and mpirun gets as many ranks as one host has processes."""
    if not spec["distribution"]:
        return None
    count = spec["processes"] or _gpus(spec, host_info) or 1
    return Distribution(
        spec["distribution"], [host_info.group], sorted(host_info.hosts), count, total=count, driven=True
    )


def host_distribution(spec: CompleteSpec, host_info: HostInfo) -> Optional[Distribution]:
    """Return the distribution that this host takes part in; hosts of other groups run the script plainly."""
    found = read_distribution(spec, host_info)
    return found if found is not None and host_info.group in found.groups else None


def launcher_distribution(spec: CompleteSpec, host_info: HostInfo) -> Optional[Distribution]:
    """Return the distribution by which a launcher starts the script here; None where it runs once, as it is."""
    found = host_distribution(spec, host_info)
    return None if found is not None and found.runner in tfconfig.STRATEGIES else found


def torchrun_arguments(found: Distribution, host_info: HostInfo) -> List[str]:
    """Return the arguments between ``torchrun`` and the script."""
    words = ["--nnodes", str(len(found.hosts)), "--nproc_per_node", str(found.processes)]
    if len(found.hosts) > 1:
        words += ["--master_addr", host_info.address_of(found.hosts[0]), "--master_port", str(host_info.port)]
        words += ["--node_rank", str(found.hosts.index(host_info.host))]
    return words


def sdk3_arguments(found: Distribution, host_info: HostInfo, environment: Iterable[str]) -> List[str]:
    """Return the arguments before the script if SDK 3's drivers start it in several processes."""
    if found.runner == "mpi":
        return ["mpirun", *mpirun_arguments(found, host_info, environment), sys.executable, "-m", "mpi4py"]
    words = torchrun_arguments(found, host_info)
    return ["torchrun", *(f"{words[at]}={words[at + 1]}" for at in range(0, len(words), 2))]


def _forwarded_variables(environment: Iterable[str]) -> List[str]:
    """Name the variables that mpirun hands on."""
    return sorted(name for name in environment if name.startswith(("SM_", "SAGEMAKER_")))


def common_network(addresses: Iterable[str]) -> str:
    """Return the smallest IPv4 network with all addresses; "" if it is so large that it says nothing."""
    try:
        numbers = [int.from_bytes(bytes(map(int, address.split("."))), "big") for address in addresses]
    except ValueError:  # an address of IPv6
        return ""
    bits = (min(numbers) ^ max(numbers)).bit_length()
    first = (min(numbers) >> bits << bits).to_bytes(4, "big")
    return f"{'.'.join(map(str, first))}/{32 - bits}" if bits <= _MOST_HOST_BITS else ""


def _network_settings(host_info: HostInfo) -> List[Tuple[str, str]]:
    """Return Open MPI's network settings, which are the same in both contracts.

    An interface may have another name on each machine, so there the setting is the network of the hosts' addresses.
    """
    apart = not host_info.shares_machine()
    network = (common_network((host_info.addresses or {}).values()) if apart else "") or host_info.interface
    return [("btl_tcp_if_include", network), ("oob_tcp_if_include", network), ("plm_rsh_no_tree_spawn", "1")]


def mpi_hosts(hosts: Iterable[str], host_info: HostInfo) -> List[str]:
    """Return the names of hosts for mpirun, which finds no address of a host without an ``/etc/hosts`` of its own."""
    return [host if host_info.shares_machine() else host_info.address_of(host) for host in hosts]


def _mca(settings: Iterable[Tuple[str, str]]) -> List[str]:
    return [word for name, value in settings for word in ("-mca", name, value)]


def mpirun_arguments(found: Distribution, host_info: HostInfo, environment: Iterable[str]) -> List[str]:
    """Return the arguments between ``mpirun`` and Python, as in sagemaker-training, except its workaround for names."""
    if found.driven:
        return _sdk3_mpirun_arguments(found, host_info, environment)
    hosts = ",".join(f"{host}:{found.processes}" for host in mpi_hosts(found.hosts, host_info))
    said = ["--host", hosts, "-np", str(found.total or found.processes * len(found.hosts)), "--allow-run-as-root"]
    said += ["--display-map", "--tag-output", *_mca(_network_settings(host_info))]
    said += ["-bind-to", "none", "-map-by", "slot", *_mca(_RANK_SETTINGS)]
    said += ["-x", "NCCL_MIN_NRINGS=4", "-x", f"NCCL_SOCKET_IFNAME={host_info.interface}", "-x", "NCCL_DEBUG=INFO"]
    said += [word for name in ("LD_LIBRARY_PATH", "PATH") if name in environment for word in ("-x", name)]
    said += shlex.split(found.options)
    return said + [word for name in _forwarded_variables(environment) for word in ("-x", name)]


def _sdk3_mpirun_arguments(found: Distribution, host_info: HostInfo, environment: Iterable[str]) -> List[str]:
    slots = f":{found.processes}" if found.processes > 1 else ""
    settings = [*_network_settings(host_info), *_RANK_SETTINGS, ("plm_rsh_num_concurrent", str(len(found.hosts)))]
    said = ["--host", ",".join(host + slots for host in mpi_hosts(found.hosts, host_info)), "-np", str(found.total)]
    said += ["--allow-run-as-root", "--tag-output", *_mca(settings)]
    handed = [
        f"NCCL_SOCKET_IFNAME={host_info.interface}",
        *(n for n in ("LD_LIBRARY_PATH", "PATH") if n in environment),
    ]
    return said + [word for name in handed for word in ("-x", name)]


def _strategy(spec: CompleteSpec, found: Optional[Distribution]) -> str:
    """Return the strategy of TensorFlow, "" if there is none; mirrored workers also get each other's addresses."""
    if found is None or found.driven:
        return ""
    if found.runner in tfconfig.STRATEGIES:
        return found.runner
    _own, framework = split(spec.get("hyperparameters") or {})
    return tfconfig.MIRRORED if framework.get(_MIRRORS) else ""


def variables(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the variables by which the processes of a job find each other; those of the request win.

    SageMaker's image of PyTorch sets them for every job, also on one host, so a script that starts a process group
    itself finds them.
    """
    if spec["kind"] != "train":
        return {}
    found = host_distribution(spec, host_info)
    ours: Dict[str, str] = {}
    if found is not None and found.driven:
        ours.update(NCCL_SOCKET_IFNAME=host_info.interface, GLOO_SOCKET_IFNAME=host_info.interface)
    elif not is_sdk3_driven(spec):
        _own, framework = split(spec.get("hyperparameters") or {})
        master = training_toolkit.master(training_toolkit.distribution_groups(framework, host_info), host_info)
        ours.update(MASTER_ADDR=host_info.address_of(master), MASTER_PORT=str(host_info.port))
        ours.update(NCCL_SOCKET_IFNAME=host_info.interface, GLOO_SOCKET_IFNAME=host_info.interface)
    strategy = _strategy(spec, found)
    if found is not None and strategy:
        ours["TF_CONFIG"] = json.dumps(tfconfig.script_config(strategy, found.hosts, host_info))
    if found is not None and found.runner == "torchrun":
        ours.update(NCCL_PROTO="simple")
        if found.processes > 1:
            ours.update(OMP_NUM_THREADS="1")  # as torchrun does, so that ranks do not fight for the host's cores
    environment = spec.get("environment") or {}
    return {name: value for name, value in ours.items() if name not in environment}
