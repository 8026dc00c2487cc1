"""Run two jobs that write to the literal ``/opt/ml``, a file of its own since it runs as a program.

``python shared_opt_ml.py FOLDER [OPTION]`` needs process namespaces and an empty ``/opt`` of its own. ``OPTION`` is a
line of configuration. Prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_CONFIG = "c.LocalEngine.use_machine_opt_ml = True\n"
_OTHER_TYPE = "ml.m5.large"
"""Type of hosts that the warm pool cannot serve."""
_SCRIPT = """\
import os
print("found", sorted(os.listdir("/opt/ml/model")), os.path.exists("/opt/ml/extra"))
if os.environ["TRAINING_JOB_NAME"].startswith("second"):
    os.unlink("/opt/ml/model")  # as `rm -rf` does
    os.mkdir("/opt/ml/model")
open("/opt/ml/model/weights", "w").write("trained")
open("/opt/ml/extra", "w").write("left")
"""


def smx(*words: str, **variables: str) -> str:
    """Run a subcommand in a terminal."""
    command = [sys.executable, "-m", "jupyter_smx.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    return done.stdout + done.stderr


def main() -> None:
    """Run the jobs on one warm pool, then on hosts that would share its folder; say what is there afterwards."""
    folder = Path(sys.argv[1])
    config = folder / "config"
    config.mkdir()
    (config / "jupyter_smx_config.py").write_text("\n".join([_CONFIG, *sys.argv[2:]]))
    os.environ |= {
        "JUPYTER_CONFIG_DIR": os.fspath(config),
        "JUPYTER_SMX_DATA_DIR": os.fspath(folder / "smx"),
        "HOME": os.fspath(folder),
    }
    (folder / "job.py").write_text(_SCRIPT)
    os.chdir(folder)
    runs = [smx("run", "job.py", "--name", "first", "--keep-alive", "10m")]
    Path("/opt/ml/model").unlink()  # what another program may do while the pool is idle
    Path("/opt/ml/model").mkdir()
    Path("/opt/ml/model/stale").touch()
    runs.append(smx("run", "job.py", "--name", "second", "--keep-alive", "10m"))
    told: dict[str, object] = {
        "runs": runs,
        "why": smx("why", "first"),
        "doctor": smx("doctor"),
        "inside": sorted(path.name for path in Path("/opt/ml").iterdir()),
        "outputs": sorted(path.name for path in folder.glob("smx/jobs/*/artifacts/model.tar.gz")),
        "other_controller": smx("run", "job.py", "--name", "other", JUPYTER_SMX_DATA_DIR=os.fspath(folder / "other")),
        "other_pool": smx("run", "job.py", "--name", "third", "--instance-type", _OTHER_TYPE),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
