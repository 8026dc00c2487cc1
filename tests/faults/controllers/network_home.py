"""Run a job with a home folder on a network file system, a file of its own since it runs as a program.

``python network_home.py FOLDER TYPE RCLONE`` needs mount and process namespaces of its own. It mounts FOLDER/home as
a FUSE file system of TYPE that rclone serves from FOLDER/backing, and an empty /var/tmp. Prints JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from jupyter_smx.agent.stores.fuse_mount import DEVICE
from jupyter_smx.agent.system.isolation import mounts

_HELPER = "import sys; from jupyter_smx.agent.stores import fuse_mount as f; sys.exit(f.run_mount_helper(sys.argv[1:]))"
_HIGH = 100
"""Number of the device; rclone has use for low ones."""
_SCRIPT = """\
import os
print("it ran")
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("trained")
"""


def mount_home(folder: Path, kind: str, rclone: str) -> Path:
    """Mount a network home, as ``fusermount3`` would."""
    home, backing, programs, named = (folder / name for name in ("home", "backing", "programs", "named"))
    for each in (home, backing, programs, named):
        each.mkdir()
    helper = programs / "fusermount3"
    helper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(_HELPER)} "$@"\n')
    helper.chmod(0o755)
    low = os.open(DEVICE, os.O_RDWR)
    device = fcntl.fcntl(low, fcntl.F_DUPFD, _HIGH)
    os.close(low)
    mounts.mount("server:/home", os.fspath(home), kind, 0, f"fd={device},rootmode=40000,user_id=0,group_id=0")
    # rclone looks at the folder that it is to mount first, which would wait for rclone here; so it is told another.
    subprocess.Popen(
        [rclone, "mount", backing, named, "--vfs-cache-mode", "writes", "--cache-dir", folder / "cache",
         "--allow-non-empty", "--config", os.devnull, "--log-level", "ERROR"],
        env=os.environ | {"JUPYTER_SMX_FUSE": str(device), "PATH": f"{programs}:{os.environ['PATH']}"},
        pass_fds=[device],
    )  # fmt: skip
    os.close(device)  # so that the mount ends with rclone
    return home


def smx(*words: str) -> str:
    """Run a subcommand in a terminal."""
    command = [sys.executable, "-m", "jupyter_smx.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main() -> None:
    """Run a job and the doctor from there, and say where everything is."""
    folder, kind, rclone = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    mounts.mount("tmpfs", "/var/tmp", "tmpfs", 0, "mode=1777")  # noqa: S108 - of this namespace alone
    home = mount_home(folder, kind, rclone)
    os.environ |= {"HOME": os.fspath(home), "JUPYTER_DATA_DIR": os.fspath(home / "jupyter")}
    os.environ.pop("JUPYTER_SMX_DATA_DIR", None)
    (home / "job.py").write_text(_SCRIPT)
    os.chdir(home)
    told: dict[str, object] = {"run": smx("run", "job.py"), "doctor": smx("doctor"), "jobs": smx("jobs")}
    (records,) = Path("/var/tmp").iterdir()  # noqa: S108 - see above
    told["records"] = sorted(path.name for path in records.iterdir())
    told["home"] = sorted(os.fspath(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
