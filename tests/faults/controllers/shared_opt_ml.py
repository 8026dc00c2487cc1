"""Run two jobs that write to the literal ``/opt/ml``, a file of its own since it runs as a program.

``python shared_opt_ml.py host|job FOLDER [OPTION]`` needs process namespaces and an empty ``/opt`` of its own. The
first word says how long the folder leads to a host. ``OPTION`` is a line of configuration. Prints JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

from jupyter_smx import cli

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
_WAITING_SCRIPT = """\
import os, time
open("/opt/ml/model/weights", "w").write("first")
print("began", flush=True)
while not os.path.exists("GO"):
    time.sleep(0.02)
print("found", open("/opt/ml/model/weights").read())
"""
_SCRIPT_WITH_VARIABLES = """\
import os
print("other job's", os.listdir("/opt/ml/model"))
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("second")
"""


def smx(*words: str, **variables: str) -> str:
    """Run a subcommand as a terminal does, in a fork: the imports of each would take longer than it does."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.environ.update(variables)
            for stream in (1, 2):
                os.dup2(writer, stream)
            cli.main([*words])
        except Exception:  # noqa: BLE001 - the test shows what was said
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def main() -> None:
    """Prepare the folder, run the jobs and print what they say."""
    mode, folder, options = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    config = folder / "config"
    config.mkdir()
    (config / "jupyter_smx_config.py").write_text("\n".join([*([_CONFIG] if mode == "host" else []), *options]))
    os.environ |= {
        "JUPYTER_CONFIG_DIR": os.fspath(config),
        "JUPYTER_SMX_DATA_DIR": os.fspath(folder / "smx"),
        "HOME": os.fspath(folder),
    }
    (folder / "job.py").write_text(_SCRIPT)
    os.chdir(folder)
    sys.stdout.write(json.dumps(_on_one_host(folder) if mode == "host" else _by_default(folder)))


def _by_default(folder: Path) -> dict[str, object]:
    """Run a job that has the folder, and another one meanwhile, then one on the idle pool of the second."""
    Path("/opt/ml").mkdir()  # as an image has it
    (folder / "first.py").write_text(_WAITING_SCRIPT.replace("GO", os.fspath(folder / "go")))
    (folder / "beside.py").write_text(_SCRIPT_WITH_VARIABLES)
    command = [sys.executable, "-m", "jupyter_smx.cli", "run", "first.py", "--name", "first", "--keep-alive", "10m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as first:
        assert first.stdout is not None
        began = list(itertools.takewhile(lambda line: "began" not in line, first.stdout))
        beside = smx("run", "beside.py", "--name", "beside", "--keep-alive", "10m")
        (folder / "go").touch()
        waited = "".join([*began, *first.stdout])
    idle = sorted(path.name for path in Path("/opt/ml").iterdir())
    return {
        "first": waited,
        "beside": beside,
        "idle": idle,
        "after": smx("run", "job.py", "--name", "after", "--keep-alive", "10m"),
        "doctor": smx("doctor"),
        "outputs": sorted(path.parent.parent.name for path in folder.glob("smx/jobs/*/artifacts/model.tar.gz")),
    }


def _on_one_host(folder: Path) -> dict[str, object]:
    """Run the jobs on one warm pool, then on hosts that would share its folder; say what is there afterwards."""
    runs = [smx("run", "job.py", "--name", "first", "--keep-alive", "10m")]
    Path("/opt/ml/model").unlink()  # what another program may do while the pool is idle
    Path("/opt/ml/model").mkdir()
    Path("/opt/ml/model/stale").touch()
    runs.append(smx("run", "job.py", "--name", "second", "--keep-alive", "10m"))
    return {
        "runs": runs,
        "why": smx("why", "first"),
        "doctor": smx("doctor"),
        "inside": sorted(path.name for path in Path("/opt/ml").iterdir()),
        "outputs": sorted(path.name for path in folder.glob("smx/jobs/*/artifacts/model.tar.gz")),
        "other_controller": smx("run", "job.py", "--name", "other", JUPYTER_SMX_DATA_DIR=os.fspath(folder / "other")),
        "other_pool": smx("run", "job.py", "--name", "third", "--instance-type", _OTHER_TYPE),
    }


if __name__ == "__main__":
    main()
