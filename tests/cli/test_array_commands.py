"""Grids, order and retries from a shell, with a real controller: one line for each task, one row, one exit code."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Terminal

KEEP = ("-k", "10m")
CODE = """
import os, sys
with open(os.environ["SM_MODEL_DIR"] + "/weights", "w") as file:
    file.write("1")
sys.exit(int(os.environ["SM_HP_CODE"]))
"""


def test_a_grid_runs_to_its_end_and_its_code_is_that_of_the_first_failure(terminal: Terminal) -> None:
    script = terminal.script("grid.py", CODE)
    grid = ("--hp", "code=[0,5,0]", "--sweep", "--max-concurrent", "1")
    done = terminal.run("run", script, *KEEP, *grid)
    assert done.returncode == 5
    ends = [line.partition(": ")[2].partition(".")[0] for line in done.stdout.splitlines()]
    assert ends == ["Completed", "Failed", "Completed"]
    assert done.stdout.splitlines()[-1].endswith("2 of 3 done, 1 failed")
    assert "sweep code" in done.stderr
    places = [line.strip() for line in done.stderr.splitlines() if line.startswith("  Model: ")]
    assert len(places) == 3, done.stderr
    assert len({place.partition(" (")[0] for place in places}) == 3
    assert all(Path(place.removeprefix("Model: ").partition(" (")[0]).is_file() for place in places)
    listed = terminal.run("jobs").stdout
    assert "sweep code, 2 of 3 done, 1 failed" in listed
    assert listed.count("grid-") == 1, "the tasks stand in one row"
    document = terminal.document("jobs", "--limit", "5")
    assert [row["name"] for row in document["jobs"] if row["base_name"] == "grid"] == []
    assert document["arrays"][0]["counts"]["failed"] == 1
    newest = terminal.document("jobs", "--limit", "1")
    assert [row["name"] for row in (*newest["jobs"], *newest["arrays"])] == [document["arrays"][0]["name"]]


def test_a_grid_runs_again_as_a_whole(terminal: Terminal) -> None:
    script = terminal.script("forest.py", CODE)
    terminal.run("run", script, *KEEP, "--hp", "code=[0,0]", "--sweep", "--max-concurrent", "1")
    done = terminal.run("rerun", "forest")
    assert (done.returncode, done.stdout.splitlines()[-1].partition(", ")[0].endswith("2 of 2 done")) == (0, True)
    again = terminal.document("rerun", "forest", "--detach")
    assert (again["size"], again["title"], again["max_concurrent"]) == (2, "sweep code", 1)
    assert [array["base_name"] for array in terminal.document("jobs")["arrays"]].count("forest") == 3


def test_a_grid_is_exported_as_a_whole(terminal: Terminal) -> None:
    script = terminal.script("swept.py", CODE)
    assert terminal.run("run", script, *KEEP, "--hp", "code=[0,0]", "--sweep", "--max-concurrent", "1").returncode == 0
    made = terminal.document("export", "swept", "swept")
    assert "tasks.json" in made["files"]
    readme = (terminal.folder / "swept" / "README.md").read_text()
    assert "No metric was defined (`--metric NAME=REGEX`)" in readme


def test_with_json_the_document_is_the_array_with_its_tasks(terminal: Terminal) -> None:
    script = terminal.script("good.py", CODE)
    done = terminal.run("run", script, *KEEP, "--hp", "code=[0,0]", "--sweep", "--max-concurrent", "1", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["counts"]["completed"], len(found["tasks"])) == (0, 2, 2)


def test_ctrl_c_leaves_a_grid_running_and_says_which_one_it_is(terminal: Terminal) -> None:
    code = "import os, threading\nthreading.Event().wait(int(os.environ['SM_HP_SECONDS']))\n"
    grid = ("--hp", "seconds=[0,600]", "--sweep", "--max-concurrent", "1")
    for form in ((), ("--json",)):
        begun = terminal.start("run", terminal.script("goes_on.py", code), *grid, *form)
        first = begun.stderr if form else begun.stdout
        assert first is not None
        name = first.readline().partition("-0: Completed")[0]
        begun.send_signal(signal.SIGINT)
        out, said = begun.communicate(timeout=30)
        assert begun.returncode == 130
        if form:
            assert json.loads(out)["name"] == name
        else:
            assert f"{name} is still running. Stop it with `jupyter smx stop {name}`, see its progress" in said
        terminal.run("stop", name)


def test_an_array_stops_as_a_whole_and_what_comes_after_it_too(terminal: Terminal) -> None:
    script = terminal.script("waits.py", "import threading\nthreading.Event().wait(600)\n")
    name = terminal.run("run", script, "--hp", "n=[1,2,3]", "--sweep", "--detach").stdout.strip()
    after = terminal.run("run", "hello.py", "--after", name, "--retries", "2", "--detach").stdout.strip()
    waiting = terminal.run("jobs").stdout
    assert f"Waiting for {name}" in waiting
    assert terminal.run("stop", name).stdout.startswith(f"{name}: 0 of 3 done, ")
    assert terminal.run("logs", after, "-f").returncode == 0, "it follows until the verdict"
    states = {row["name"]: row["status"] for row in terminal.document("jobs", "--status", "Stopped")["jobs"]}
    assert states[after] == "Stopped"


def test_a_grid_without_a_list_is_wrong_use(terminal: Terminal) -> None:
    done = terminal.run("run", "hello.py", "--hp", "lr=1", "--sweep")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no hyperparameter has a list of values" in done.stderr
    done = terminal.run("run", "hello.py", "--max-concurrent", "2")
    assert (done.returncode, done.stdout) == (2, "")
