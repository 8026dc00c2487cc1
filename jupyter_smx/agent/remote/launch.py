"""Launch one host on this machine: give it a slot and GPUs, describe it, start its agent, wait until it listens."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

from jupyter_smx.agent import errors
from jupyter_smx.agent.remote import observe
from jupyter_smx.agent.remote.cluster_store import AgentIdentity, ClusterStore, HostName
from jupyter_smx.agent.remote.verb_error import REFUSED, VerbError
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import cgroup_limits

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_PAUSE = 0.02
_RELEASE_TIMEOUT = 5.0
"""Seconds until the processes of a refused launch must have exited."""
_NOTICE_GRACE = 30.0
"""Seconds from SIGTERM to the end of the machine where a description has none."""
_SETUP_FAILED = 95
"""Exit code of the shell of an environment whose last line failed."""
_NOT_STARTED = (126, 127)
"""Exit codes of a shell that cannot start a program."""
_CONDA_MISSING = ("conda: command not found", "conda: not found", "'conda init'")
"""What shells and the program of conda print where its function is not defined."""


def launch(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Launch a host, or join the launch of another process; return what finds it again.

    ``request`` has ``owner``, ``machine`` (its name for people), ``cluster``, ``host``, ``description`` (``host.json``
    without what this machine decides), ``slots`` (0: one for each CPU), ``devices`` (names of GPUs; empty: what the
    driver lists), ``gpus`` (how many it needs), ``command`` (what is run in the place of ``python``), ``python``,
    ``setup`` (words of a shell before it, of the ``environment`` of that name) and ``timeout`` in seconds. With
    ``parent``, the name of a step parent of an allocation, this one starts the agent, slots, GPUs and limits are those
    of the scheduler, and ``home`` is the folder that gets the results which nothing has collected at the end.

    A refusal leaves nothing of the cluster on this machine; launches of its other hosts are then refused, too.

    :raises VerbError: it was released, there is no slot or GPU now or ever, or its agent did not come up.
    """
    name = HostName(request["cluster"], request["host"])
    try:
        return _launch(store, name, request)
    except VerbError as error:
        if error.kind == REFUSED:
            _take_back(store, name, request)
        raise
    except OSError:
        _take_back(store, name, request)
        raise


def _take_back(store: ClusterStore, name: HostName, request: Dict[str, Any]) -> None:
    """Release the slot, GPUs and control group of a refused launch, as far as the disk allows that."""
    from jupyter_smx.agent.remote import release  # noqa: PLC0415 - launches seldom need it

    with contextlib.suppress(OSError, VerbError):
        question = {"cluster": name.cluster, "machine": request["machine"], "timeout": _RELEASE_TIMEOUT}
        release.release(store, question)


def _launch(store: ClusterStore, name: HostName, request: Dict[str, Any]) -> Dict[str, Any]:
    with store.lock():
        if store.is_released(name.cluster):
            raise _released_error(name.cluster)
        if not store.description(name):
            store.describe(name, _complete(store, name, request))
    end = time.monotonic() + float(request["timeout"])
    if not os.path.exists(store.folder(name).claim):
        _start(store, name, request, end)
    found = _wait(store, name, request, end)
    return {
        **found._asdict(),
        "socket": observe.socket_path(store, name),
        "devices": store.description(name)["devices"],
    }


def _complete(store: ClusterStore, name: HostName, request: Dict[str, Any]) -> Dict[str, Any]:
    """Add to a host's description what this machine decides; takes a slot and GPUs."""
    if request.get("parent"):
        return {**request["description"], "owner": request["owner"], "devices": [], "limits": {}}
    others = store.live_hosts()
    slots = int(request["slots"]) or os.cpu_count() or 1
    if len(others) >= slots:
        raise VerbError(
            "{} has {}, and all of them are in use.".format(request["machine"], _count(slots, "slot")), transient=True
        )
    wanted = int(request["gpus"])
    present = list(request["devices"]) or (gpu_names() if wanted else [])
    held = {device for other in others for device in store.description(other).get("devices", [])}
    devices = assign_gpus(wanted, present, held, request["machine"])
    share = cgroup_limits.CgroupLimits(int(request["cpus"]), int(request["memory"]))
    group = cgroup_limits.group_name(store.root, name.cluster, name.host)
    parents = cgroup_limits.make_groups(cgroup_limits.find_parents(), group, share)
    limits = cgroup_limits.plan_limits(parents, group, share)
    return {**request["description"], "owner": request["owner"], "devices": devices, "limits": limits}


def gpu_names() -> List[str]:
    """Name the GPUs that the driver of this machine lists, by their unique ids."""
    from jupyter_smx.agent.telemetry import gpu  # noqa: PLC0415 - most hosts have none

    found = gpu.find()
    return [] if found is None else [device.id for device in found.devices]


def assign_gpus(wanted: int, present: Sequence[str], held: Any, machine: str) -> List[str]:
    """Choose GPUs that no host has, the first ones first; pure.

    :raises VerbError: the machine has not so many, or not now.
    """
    free = [device for device in present if device not in held]
    if wanted > len(free):
        is_temporary = wanted <= len(present)
        raise VerbError(
            "instance_type: {} has {}, {} of them free, and {} needed.".format(
                machine, _count(len(present), "GPU"), len(free), wanted
            ),
            field="instance_type",
            cure="" if is_temporary else "Use a type with fewer GPUs, or another machine.",
            transient=is_temporary,
        )
    return free[:wanted]


def _count(number: int, noun: str) -> str:
    return "{} {}{}".format(number, noun, "" if number == 1 else "s")


def _released_error(cluster: str) -> VerbError:
    return VerbError(
        "cluster: {!r} was released.".format(cluster),
        field="cluster",
        value=cluster,
        rule="A cluster id can be used only once.",
    )


def _command(request: Dict[str, Any], folder: str) -> List[str]:
    words = [request["python"], "-I", process.entry(), "serve", folder]
    if not request["setup"]:
        return words
    # A login shell, because `module` and `conda` are functions that its start files define.
    shell = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh")
    script = '{}\n[ "$?" = 0 ] || exit {}\nexec "$0" "$@"'.format(request["setup"], _SETUP_FAILED)
    return [shell, "-l", "-c", script, *words]


def _start(store: ClusterStore, name: HostName, request: Dict[str, Any], end: float) -> None:
    """Start the agent, and wait until it is ready, or ends.

    :raises VerbError: it exited, and no other agent runs the host.
    """
    code = (
        _start_by_parent(store, name, request, end)
        if request.get("parent")
        else _start_local(store, name, request, end)
    )
    if code is None or code == errors.EXIT_CLAIMED:
        return
    _check_disk(code, request["machine"])
    if code == _SETUP_FAILED and request["setup"]:
        raise _setup_error(store, name, request)
    if code in _NOT_STARTED and request["setup"]:
        raise _python_error(request, observe.log_tail(store, name))
    raise _start_error(store, name, "ended with exit code {}".format(code))


def _start_local(store: ClusterStore, name: HostName, request: Dict[str, Any], end: float) -> Optional[int]:
    """Start the agent as a process of its own; return its exit code, or None as soon as it is ready.

    :raises VerbError: it cannot be started, or gives no sign in time.
    """
    folder = store.folder(name)
    devices = ",".join(store.description(name)["devices"])
    # The session's own variables, such as SSH_CONNECTION, are invalid once it is closed.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
    variables = {**inherited, "JUPYTER_SMX_HOST": "/".join(name), **dict.fromkeys(GPU_VARIABLES, devices)}
    listening, ready = os.pipe()
    os.set_inheritable(ready, True)
    log = os.open(folder.path(host_layout.AGENT_LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            [*_command(request, folder.root), "--ready-fd", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.root,
            env=variables,
            pass_fds=(ready,),
            start_new_session=True,
        )
    except OSError as error:
        raise _python_error(request, error.strerror or str(error)) from error
    finally:
        os.close(ready)
        os.close(log)
    with open(listening, "rb", buffering=0) as pipe:
        if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            raise _start_error(store, name, "did not report within {:g} s".format(request["timeout"]))
        return None if pipe.read(1) else child.wait()


def _start_by_parent(store: ClusterStore, name: HostName, request: Dict[str, Any], end: float) -> Optional[int]:
    """Let the step parent of an allocation start the agent, since a scheduler kills what this process would leave.

    :raises VerbError: there is no parent, it cannot start the agent, or gives no answer in time.
    """
    from jupyter_smx.agent.remote import allocation  # noqa: PLC0415 - only nodes of schedulers need it

    folder = store.folder(name)
    launch_request = {
        "words": _command(request, folder.root),
        "folder": folder.root,
        "log": folder.path(host_layout.AGENT_LOG),
        "grace": float(request["description"].get("notice_grace", _NOTICE_GRACE)),
        "variables": {"JUPYTER_SMX_HOST": "/".join(name)},
        # Run after the agent: nothing can run here after the allocation.
        "after": [sys.executable, "-I", process.entry(), "remote", "finish_host", store.root],
        "question": {"cluster": name.cluster, "host": name.host, "home": request["home"]},
    }
    try:
        answer = allocation.ask_parent(str(request["parent"]), launch_request, max(0.1, end - time.monotonic()))
    except OSError as error:
        raise VerbError(
            "The allocation {} has no step parent on {} ({}).".format(request["parent"], request["machine"], error),
            kind="unavailable",
            transient=True,
        ) from error
    if "error" in answer:
        raise _python_error(request, answer["error"])
    return answer.get("code")


def _check_disk(code: int, machine: str) -> None:
    """Raise if the exit code of an agent shows an error of its disk.

    :raises VerbError: its disk is full, read-only or fails.
    """
    states = {
        errors.EXIT_DISK_FULL: ("The disk of {} is full.", "Free some space there."),
        errors.EXIT_DISK_FAILS: ("The disk of {} is read-only or fails.", "Mount it for writing again."),
    }
    if code in states:
        state, cure = states[code]
        raise VerbError(state.format(machine), field="machine", value=machine, cure=cure, transient=True)


def _wait(store: ClusterStore, name: HostName, request: Dict[str, Any], end: float) -> AgentIdentity:
    while True:
        found = store.agent(name)
        if store.is_released(name.cluster):
            raise _released_error(name.cluster)
        if found is not None and found.is_alive():
            return found
        if found is not None:
            raise _start_error(store, name, "died")
        if time.monotonic() > end:
            raise _start_error(store, name, "did not report within {:g} s".format(request["timeout"]))
        time.sleep(_PAUSE)


def _python_error(request: Dict[str, Any], why: str) -> VerbError:
    return VerbError(
        "python: {!r} cannot be started on {} ({}).".format(request["python"], request["machine"], why),
        field="python",
        value=request["python"],
        cure="Name an interpreter of that machine with --python remote:/PATH, or set the python of the machine.",
    )


def _last_command(setup: str) -> str:
    """Return the last line of an environment that is no comment; a failing earlier line does not stop the shell."""
    lines = [line.strip() for line in setup.splitlines()]
    return ([line for line in lines if line and not line.startswith("#")] or [setup.strip()])[-1]


def _setup_cure(words: str) -> str:
    """Return the advice for an environment whose last line failed and printed ``words``; pure."""
    if any(text in words for text in _CONDA_MISSING):
        return (
            "A shell without a terminal may not define conda. Begin the lines with "
            "`source CONDA_FOLDER/etc/profile.d/conda.sh` in the configuration (environments)."
        )
    return "Try its lines there with `bash -lc`, and correct them in the configuration (environments)."


def _setup_error(store: ClusterStore, name: HostName, request: Dict[str, Any]) -> VerbError:
    words = observe.log_tail(store, name)
    return VerbError(
        "python: the last line of the environment {!r} fails on {}: {}.".format(
            request["environment"], request["machine"], _last_command(request["setup"])
        ),
        field="python",
        value=request["environment"],
        rule="It printed: {}.".format(words.rstrip(".")) if words else "It printed nothing.",
        cure=_setup_cure(words),
    )


def _start_error(store: ClusterStore, name: HostName, what: str) -> VerbError:
    words = observe.log_tail(store, name)
    return VerbError(
        "Host {} of cluster {} did not start: its agent {}.".format(name.host, name.cluster, what),
        kind="unavailable",
        transient=True,
        field="host",
        value=name.host,
        rule="agent.log ends with: {}".format(words) if words else "agent.log is empty.",
        cure="The whole log is {}.".format(store.folder(name).path(host_layout.AGENT_LOG)),
    )
