"""Entry points, failures and processing jobs through a real controller, a real agent and the local engine."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from projects import run

import jupyter_smx as smx
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

SHELL = """\
echo "$@ in $(basename $PWD)"
echo weights > "$SM_MODEL_DIR/model.bin"
exit $SM_HP_CODE
"""
OWN_WORDS = "import os; open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('too hot'); raise KeyError('x')"


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


def test_a_shell_script_runs_as_a_training_job_and_its_model_comes_home(notebook: Any, tmp_path: Path) -> None:
    del notebook  # gives the session
    (tmp_path / "train.sh").write_text(SHELL)
    job = smx.train(entry_point="train.sh", hyperparameters={"code": 0}, keep_alive="1m", wait=True)
    assert job.logs() == "--code 0 in code\n"
    with tarfile.open(job.artifacts["model.tar.gz"]) as archive:
        assert archive.getnames() == ["model.bin"]
    failed = smx.train(entry_point="train.sh", hyperparameters={"code": 137}, keep_alive="1m")
    with pytest.raises(JobFailed, match=r"Exit Code: 137"):
        failed.result(60)
    first, code, message, extra, command = failed.record.failure_reason.splitlines()
    assert (first, code, message) == ("AlgorithmError: ExecuteUserScriptError:", "ExitCode 137", 'ErrorMessage ""')
    assert extra.startswith('ExtraInfo "OutOfMemory: ')
    assert command == 'Command "/bin/sh -c ./train.sh --code 137"'
    assert (failed.record.hosts[0].exit_code, failed.record.failure_text()) == (137, "AlgorithmError: Exit Code: 137")


def test_what_a_failed_job_is_called_by_sagemaker_and_by_us(notebook: Any) -> None:
    with pytest.raises(JobFailed, match=r"KeyError: 'x' \(line 2\)"):
        run(notebook, "%%train --as job -k 1m\nraise KeyError('x')")
    job = notebook.user_ns["job"]
    lines = job.record.failure_reason.splitlines()
    assert lines[:3] == ["AlgorithmError: ExecuteUserScriptError:", "ExitCode 1", "ErrorMessage \"KeyError: 'x'\""]
    assert lines[3].endswith(' -- train.py"')
    assert job.record.failure_message == job.record.transitions[-1].status_message == "AlgorithmError: KeyError: 'x'"
    with pytest.raises(JobFailed):
        run(notebook, f"%%train --as job -k 1m\n{OWN_WORDS}")
    assert notebook.user_ns["job"].record.failure_reason == "AlgorithmError: too hot"
    assert notebook.user_ns["job"].record.hosts[0].exception.type == "KeyError"


def test_requirements_beside_the_script_are_there_and_the_next_job_is_warm(notebook: Any, tmp_path: Path) -> None:
    src = tmp_path / "src"
    write_wheel(src / "wheels", "beta", "1.0")
    (src / "requirements.txt").write_text("--no-index\n--find-links wheels\nbeta==1.0\n")
    (src / "train.py").write_text("import beta\nprint(beta.version)\n")
    line = "%train --source-dir src --entry-point train.py -k 5m --as job --wait"
    run(notebook, line)
    assert notebook.user_ns["job"].logs() == "1.0\n"
    run(notebook, line)
    assert notebook.user_ns["job"].record.why.start == "warm"
    with pytest.raises(JobFailed, match="No module named 'beta'"):
        run(notebook, f"{line} --requirements none")
    (src / "requirements.txt").write_text("--no-index\nnosuchpackage==3\n")
    with pytest.raises(JobFailed):
        run(notebook, line)
    (record,) = [smx.job(job.id).record for job in smx.jobs(1)]
    assert record.failure_reason.startswith("AlgorithmError: InstallRequirementsError: --requirements: nosuchpackage")


TORCHRUN = """\
#!{python}
import runpy, sys
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script in the Python that runs this program, as torchrun, accelerate and ray do in processes of their own."""
STARTS_TORCHRUN = """\
import beta, shutil, subprocess, sys
print(*sys.argv[1:], sys.executable, beta.version, shutil.which("torchrun"), shutil.which("tool-of-base"), flush=True)
if not sys.argv[1:]:
    sys.exit(subprocess.call(["torchrun", "--nproc_per_node", "1", __file__, "child"]))
"""


def test_programs_of_the_python_below_run_in_the_environment_of_the_requirements(notebook: Any, tmp_path: Path) -> None:
    """The cases console-script-with-requirements and torchrun-from-script."""
    base = tmp_path / "base" / "bin"
    subprocess.run([sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, str(base.parent)], check=True)
    for name, text in (("torchrun", TORCHRUN.format(python=base / "python")), ("tool-of-base", "#!/bin/sh\n")):
        (base / name).write_text(text)
        (base / name).chmod(0o755)
    src = tmp_path / "src"
    write_wheel(src / "wheels", "beta", "1.0")
    (src / "requirements.txt").write_text("--no-index\n--find-links wheels\nbeta==1.0\n")
    (src / "tr.py").write_text(STARTS_TORCHRUN)
    run(notebook, f"%train --python {base / 'python'} --source-dir src --entry-point tr.py --as job --wait")
    parent, child = (line.split() for line in notebook.user_ns["job"].logs().splitlines())
    python = parent[0]
    assert "/environments/" in python
    torchrun = python.removesuffix("python") + "torchrun"
    assert parent == [python, "1.0", torchrun, str(base / "tool-of-base")]
    assert child == ["child", *parent]


def test_sdk_3_installs_what_is_named_for_any_script_and_nothing_else(notebook: Any, tmp_path: Path) -> None:
    """The case v3-requirements."""
    src = tmp_path / "src"
    write_wheel(src / "wheels", "beta", "1.0")
    (src / "requirements.txt").write_text("--no-index\n--find-links wheels\nbeta==1.0\n")
    (src / "t.py").write_text("import importlib.util\nprint(importlib.util.find_spec('beta'))\n")
    (src / "t.sh").write_text('#!/bin/bash\nset -e\npython -c "import beta; print(beta.version)"\n')
    for words, printed in (
        ("t.py", "None\n"),
        ("t.sh --requirements requirements.txt", "1.0\n"),
    ):
        run(notebook, f"%train --contract v3 --source-dir src --as job --wait --entry-point {words}")
        assert notebook.user_ns["job"].logs() == printed


PROCESS = """\
import os, sys
base = os.path.dirname(os.path.dirname(os.environ["SMX_OUTPUT_TABLE"]))
open(os.environ["SMX_OUTPUT_TABLE"] + "/" + sys.argv[1], "w").write(sys.argv[2])
open(os.path.join(base, "output", "message"), "w").write("rows left out: " + sys.argv[2])
sys.exit(int(sys.argv[3]))
"""


def test_a_processing_job_takes_words_says_how_it_ended_and_keeps_outputs_of_a_failure(
    notebook: Any, tmp_path: Path
) -> None:
    del notebook  # gives the session
    (tmp_path / "clean.py").write_text(PROCESS)
    wish: dict[str, Any] = {"entry_point": "clean.py", "keep_alive": "1m"}
    outputs = {"table": f"/opt/ml/processing/table:{tmp_path}/out"}
    done = smx.process(arguments=["a.csv", "--3", "0"], outputs=outputs, wait=True, **wish)
    assert done.exit_message == "rows left out: --3"
    assert (tmp_path / "out" / "a.csv").read_text() == "--3"
    failed = smx.process(arguments=["b.csv", "4", "5"], outputs=outputs, **wish)
    with pytest.raises(JobFailed):
        failed.result(60)
    assert (failed.record.failure_reason, failed.exit_message) == ("AlgorithmError: Exit Code: 5", "rows left out: 4")
    assert (tmp_path / "out" / "b.csv").read_text() == "4"


KEEPS = """
import os, time
open(os.environ["SM_MODEL_DIR"] + "/" + os.environ["SM_CURRENT_HOST"], "w").write("weights")
open(os.environ["SM_OUTPUT_DATA_DIR"] + "/rows.csv", "w").write("1")
print("kept", flush=True)
if END == "raises":
    raise ValueError("after that")
while END == "waits":
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("end", "wish", "state"),
    [
        ("leaves", {"instance_count": 2}, SecondaryStatus.COMPLETED),
        ("raises", {}, SecondaryStatus.FAILED),
        ("waits", {}, SecondaryStatus.STOPPED),
        ("waits", {"max_run": 1}, SecondaryStatus.MAX_RUNTIME_EXCEEDED),
    ],
)
def test_what_a_job_made_comes_home_however_it_ends_and_from_all_of_its_hosts(
    notebook: Any, end: str, wish: dict[str, Any], state: SecondaryStatus
) -> None:
    del notebook  # gives the session
    job = smx.train(f"END = {end!r}\n{KEEPS}", **wish)
    if state is SecondaryStatus.STOPPED:
        eventually_blocking(lambda: "kept" in job.logs(), "its model", within=60)
        job.stop()
    job.exception(60)
    assert job.record.state is state
    hosts = ["algo-1", "algo-2"][: wish.get("instance_count", 1)]
    with tarfile.open(job.artifacts["model.tar.gz"]) as model, tarfile.open(job.artifacts["output.tar.gz"]) as data:
        assert (sorted(model.getnames()), data.getnames()) == (hosts, ["rows.csv"])
