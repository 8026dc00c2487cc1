"""Checkpoints of real jobs on a real host: restored before the start, kept while they run, however they end."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from far_side import FOREVER, SAVES_AT_ITS_END

from jupyter_smx.agent.system.processes import process
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

FOLDER = "import os, sys\nfolder = os.environ['SAGEMAKER_BASE_DIR'] + '/checkpoints/'\n"
SAVE = FOLDER + "open(folder + 'step', 'w').write('1')\n"


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_a_job_finds_what_the_one_before_it_left(agent: Agent, kept: Path) -> None:
    source = FOLDER + (
        "path = folder + 'deep/count'\n"
        "count = int(open(path).read()) if os.path.exists(path) else 0\n"
        "print(count)\n"
        "os.makedirs(folder + 'deep', exist_ok=True)\n"
        "open(path, 'w').write(str(count + 1))\n"
    )
    for expected in range(3):
        record = agent.run(source, checkpoint=str(kept))
        assert (record["text"], record["errors"]) == (f"{expected}\n", [])
    assert files(kept) == {"deep/count": "3"}
    # Without the wish the folder is there, and empty: it is no way from one job to the next.
    assert agent.run(FOLDER + "print(os.listdir(folder))")["text"] == "[]\n"


def test_they_are_kept_while_the_job_runs_and_what_is_deleted_goes(agent: Agent, kept: Path) -> None:
    kept.mkdir()
    (kept / "old").write_text("0")
    source = SAVE + "os.unlink(folder + 'old')\n" + FOREVER
    job, lease = agent.start(source, checkpoint=str(kept))
    agent.wait_for_log(job, "on")
    eventually_blocking(lambda: files(kept) == {"step": "1"}, "the checkpoint is kept while the job runs")
    agent.stop(job, lease)
    assert agent.end_of(job)["errors"] == []


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("sys.exit(3)", "exit"),
        ("1 / 0", "exit"),
        ("os.kill(os.getpid(), 9)", "signal"),
        ("os._exit(0)", "exit"),
    ],
)
def test_what_was_written_last_is_kept_however_the_code_ends(agent: Agent, kept: Path, end: str, cause: str) -> None:
    record = agent.run(SAVE + end, checkpoint=str(kept))
    assert (record["cause"], files(kept)) == (cause, {"step": "1"})


@pytest.mark.parametrize("path", ["/opt/ml/checkpoints/deep/er", "/opt/ml/output/kept", "/opt/ml/mine"])
def test_they_lie_where_the_wish_says(agent: Agent, kept: Path, path: str) -> None:
    look = (
        f"import json, os\nfolder = os.environ['SAGEMAKER_BASE_DIR'] + {path.removeprefix('/opt/ml')!r}\n"
        "config = json.load(open(os.environ['SM_INPUT_CONFIG_DIR'] + '/checkpointconfig.json'))\n"
        "print(json.dumps([config, sorted(os.listdir(folder))]))\n"
        "open(folder + '/step', 'w').write('1')\n"
        "open(os.environ['SAGEMAKER_BASE_DIR'] + '/checkpoints/other', 'w').write('1')\n"
    )
    wish = {"checkpoint": str(kept), "checkpoint_local_path": path}
    assert agent.json(look, **wish) == [{"LocalPath": path}, []], "it is made before the job begins"
    assert files(kept) == {"step": "1"}, "and nothing else is kept"
    assert agent.json(look, **wish) == [{"LocalPath": path}, ["step"]]
    agent.serves()


@pytest.mark.parametrize("cause", ["stopped", "interrupted", "max_wait"])
def test_what_a_script_saves_when_it_is_told_to_end_is_kept(agent: Agent, kept: Path, cause: str) -> None:
    job, lease = agent.start(FOLDER + SAVES_AT_ITS_END, checkpoint=str(kept))
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, cause=cause)
    assert agent.end_of(job)["cause"] == cause
    assert files(kept) == {"last": "saved"}


def test_what_is_there_when_the_time_is_over_is_kept(agent: Agent, kept: Path) -> None:
    record = agent.run(SAVE + FOREVER, checkpoint=str(kept), max_run=1)
    assert (record["cause"], files(kept)) == ("max_runtime", {"step": "1"})


def test_a_place_that_cannot_be_used_is_refused_before_the_code_begins(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    record = agent.run("print('ran')", checkpoint=str(tmp_path / "file" / "kept"))
    assert (record["cause"], record["text"]) == ("refused", "")
    assert record["failure"] == f"checkpoint: {tmp_path}/file/kept cannot be used (Not a directory)."
    agent.serves()


def test_a_place_that_is_lost_meanwhile_is_said_and_fails_nobody(agent: Agent, kept: Path) -> None:
    job, _ = agent.start(
        FOLDER + "import time\nprint('on', flush=True)\nwhile not os.path.exists(folder + 'go'): time.sleep(0.01)",
        checkpoint=str(kept),
    )
    agent.wait_for_log(job, "on")
    kept.rmdir()
    kept.write_text("a file in its place")
    (agent.folder / "ml" / "checkpoints" / "go").touch()
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("exit", 0)
    assert record["errors"][0].startswith("checkpoint: ")
    assert "could not be kept" in record["errors"][0]
    agent.serves()


def test_an_errand_that_is_killed_is_made_good_at_the_end(agent: Agent, kept: Path) -> None:
    job, lease = agent.start(SAVE + FOREVER, checkpoint=str(kept))
    agent.wait_for_log(job, "on")
    eventually_blocking(lambda: files(kept) == {"step": "1"}, "it is kept")
    (errand,) = set(process.children(agent.process.pid)) - set(process.tree(agent.zygotes()))
    os.kill(errand, signal.SIGKILL)
    (agent.folder / "ml" / "checkpoints" / "late").write_text("2")
    agent.stop(job, lease)
    assert agent.end_of(job)["errors"] == []
    assert files(kept) == {"late": "2", "step": "1"}


def test_and_what_is_saved_later_is_kept_while_the_job_runs(agent: Agent, kept: Path) -> None:
    job, lease = agent.start(SAVE + FOREVER, checkpoint=str(kept))
    agent.wait_for_log(job, "on")
    eventually_blocking(lambda: files(kept) == {"step": "1"}, "it is kept")
    (errand,) = set(process.children(agent.process.pid)) - set(process.tree(agent.zygotes()))
    os.kill(errand, signal.SIGKILL)
    (agent.folder / "ml" / "checkpoints" / "late").write_text("2")
    eventually_blocking(lambda: files(kept) == {"late": "2", "step": "1"}, "another errand keeps them", within=60)
    agent.stop(job, lease)
    assert agent.end_of(job)["errors"] == []


def test_nothing_of_it_outlives_the_agent(start_agent: Callable[..., Agent], kept: Path) -> None:
    agent = start_agent()
    job, _ = agent.start(SAVE + FOREVER, checkpoint=str(kept))
    agent.wait_for_log(job, "on")
    agent.process.kill()
    agent.wait()
    eventually_blocking(agent.is_over, "nothing of the host is alive")


def test_the_script_reads_where_its_checkpoints_are(agent: Agent, kept: Path) -> None:
    source = (
        "import json, os\nfolder = os.environ['SM_INPUT_CONFIG_DIR']\n"
        "print(sorted(os.listdir(folder)))\nprint(open(folder + '/checkpointconfig.json').read())"
    )
    listing, config = agent.run(source, checkpoint=str(kept))["text"].splitlines()
    assert "checkpointconfig.json" in listing
    assert config == '{"LocalPath": "/opt/ml/checkpoints"}'
    assert (
        "checkpointconfig.json"
        not in agent.run("import os; print(os.listdir(os.environ['SM_INPUT_CONFIG_DIR']))")["text"]
    )
