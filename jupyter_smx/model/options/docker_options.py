"""Answer options of ``docker run`` that jobs do not have with the option, or the setting, that jobs have instead."""

from __future__ import annotations

from jupyter_smx.model.options.table import BY_SPELLING

_PAGE = "The page Run jobs in containers of the documentation lists the options of docker run."
_GPUS = "The instance type selects the GPUs: -t ml.g5.xlarge."
_TYPE = "The instance type has CPUs and memory: -t ml.m5.xlarge."
_MOUNT = "Use --mount SOURCE:TARGET, which is read-only unless :rw follows."
_PORT = "Hosts publish no ports. jupyter smx shell opens a shell in a host."
_NETWORK = "Each job has a network of its own. --network-isolation closes it."
_HOSTS = "The machine is host.docker.internal in a container."
_FILE = "Use --env NAME=VALUE for each variable."
_RIGHTS = "Containers of jobs have no capabilities and no devices."
_DETACHED = "A job runs without a terminal, and its container is removed at its end."
_BUILD = "Use --build with the path of a Dockerfile."
_BUILD_OPTION = "--build has no options: build the image with docker build -t NAME, and use --image NAME."
_ISOLATED = "All containers of jobs are isolated alike, and read-only but for /opt/ml, /tmp and /dev/shm."
_NAMED = "--name and --job-name name a job; its containers have labels that begin with jupyter-smx."
_PULL = "DockerEngine.pull of the configuration decides when images are downloaded."
INSTEAD = {
    **dict.fromkeys(("--gpus", "--runtime"), _GPUS),
    **dict.fromkeys(
        ("--cpus", "--memory", "-m", "--memory-swap", "--memory-reservation", "--memory-swappiness"), _TYPE
    ),
    **dict.fromkeys(("--cpu-shares", "--cpu-period", "--cpu-quota", "--cpuset-cpus", "--cpuset-mems"), _TYPE),
    **dict.fromkeys(("-v", "--volume", "--volumes", "--volumes-from", "--tmpfs"), _MOUNT),
    **dict.fromkeys(("-p", "--publish", "-P", "--publish-all", "--expose", "--ports"), _PORT),
    **dict.fromkeys(("--network", "--net", "--network-alias", "--link", "--ip", "--mac-address"), _NETWORK),
    **dict.fromkeys(("--dns", "--dns-search", "--dns-option", "--hostname", "--domainname"), _NETWORK),
    **dict.fromkeys(("--add-host", "--extra-hosts"), _HOSTS),
    "--env-file": _FILE,
    **dict.fromkeys(("--privileged", "--cap-add", "--cap-drop", "--device", "--group-add"), _RIGHTS),
    **dict.fromkeys(("--security-opt", "--read-only", "--userns", "--pid", "--uts", "--sysctl"), _ISOLATED),
    **dict.fromkeys(("--rm", "--interactive", "--tty", "--init", "--restart", "--attach", "--log-driver"), _DETACHED),
    **dict.fromkeys(("--label", "--cidfile"), _NAMED),
    **dict.fromkeys(("-f", "--file", "--dockerfile"), _BUILD),
    **dict.fromkeys(("--build-arg", "--target", "--no-cache", "--tag", "--secret", "--build-context"), _BUILD_OPTION),
    **dict.fromkeys(("--pull", "--platform"), _PULL),
    **dict.fromkeys(("--ipc", "--shm"), "Use --shm-size for a larger /dev/shm."),
    **dict.fromkeys(("--ulimit", "--pids-limit"), "DockerEngine.pids_limit of the configuration limits processes."),
    "-u": "--user image runs a job as the USER of its image; DockerEngine.user of the configuration is for others.",
    "-w": "--workdir image starts the job in the WORKDIR of its image.",
}
"""Sentences by the spellings of ``docker run`` and ``docker build``."""
_SHORT = {"e": "--env", "h": "--hostname", "i": "--interactive", "l": "--label", "t": "--tty", "u": "--user"}
"""Short options of Docker that have another meaning here, or none: those of the table above count first."""


def docker_cure(spelling: str) -> str:
    """Return what to use instead of an option of ``docker run``; "" if Docker has no such option, or jobs have it.

    >>> docker_cure("--tmpfs")[:25]
    'Use --mount SOURCE:TARGET'
    """
    name = spelling if spelling.startswith("--") else spelling[:2]  # the value may follow a short one without a blank
    instead = "" if name in BY_SPELLING else INSTEAD.get(name, "")
    return f"{instead} {_PAGE}" if instead else ""


def engine_option_cure(name: str) -> str:
    """Return what to use instead of an option of Docker that a job names as one of its engine; "" if there is none.

    >>> engine_option_cure("e")
    'Use --env NAME=VALUE.'
    """
    spelling = f"--{name}" if len(name) > 1 else _SHORT.get(name, f"-{name}")
    option = BY_SPELLING.get(spelling) if spelling.startswith("--") else None
    if option is not None:
        return f"Use {f'{spelling} {option.metavar}'.strip()}."
    instead = INSTEAD.get(spelling, "")
    return f"{instead} {_PAGE}" if instead else ""
