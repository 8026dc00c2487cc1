"""Folders that are deeper than Python's recursion limit, which jobs make and users pass: no process fails on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files.walk import make_folders
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

DEPTH = 1100
DOWN = "d/" * DEPTH
MAKE = f"""
import os
os.makedirs(place, exist_ok=True)
os.chdir(place)
for _ in range({DEPTH}):
    os.mkdir("d")
    os.chdir("d")
with open("weights", "w") as file:
    file.write("1")
"""

pytestmark = pytest.mark.usefixtures("deep_path")


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """Return a folder with a file at that depth."""
    folder = tmp_path / "deep"
    make_folders(str(folder / DOWN))
    (folder / DOWN / "weights").write_text("1")
    return folder


def below(name: str) -> str:
    return f"place = os.environ['SAGEMAKER_BASE_DIR'] + {name!r}\n"


def test_they_are_kept_as_checkpoints_and_found_again(agent: Agent, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    record = agent.run("import os\n" + below("/checkpoints") + MAKE, checkpoint=str(kept))
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert (kept / DOWN / "weights").read_text() == "1"
    look = "import os\n" + below("/checkpoints") + f"print(open(place + '/{DOWN}weights').read())"
    record = agent.run(look, checkpoint=str(kept))
    assert (record["text"], record["errors"]) == ("1\n", [])
    agent.serves()


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_they_are_inputs(agent: Agent, deep: Path, mode: str) -> None:
    channels = [{"name": "training", "source": str(deep), "mode": mode}]
    look = "import os\n" + below("/input/data/training") + f"print(open(place + '/{DOWN}weights').read())"
    record = agent.run(look, channels=channels)
    assert (record["text"], record["errors"]) == ("1\n", [])
    agent.serves()


def test_outputs_come_home_while_the_job_runs(agent: Agent, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    outputs = [{"name": "r", "path": "/opt/ml/processing/output/r", "mode": "Continuous", "destination": str(wanted)}]
    source = "import os\n" + below("/processing/output/r") + MAKE + "import signal\nsignal.pause()"
    job, lease = agent.start(source, kind="process", outputs=outputs)
    eventually_blocking((wanted / DOWN / "weights").exists, "the file is there while the job runs")
    agent.stop(job, lease)
    assert agent.end_of(job)["errors"] == []
