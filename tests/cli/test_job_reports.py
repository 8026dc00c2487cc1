"""Lists, descriptions, events and JSON documents of jobs in a terminal."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from msgspec import to_builtins

from jupyter_smx.kernel.subcommands.job_subcommands import document
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from conftest import Terminal


def test_a_list_looks_at_the_status_before_it_counts(terminal: Terminal) -> None:
    fails = terminal.script("fails.py", "raise SystemExit(3)\n")
    assert terminal.run("run", fails, "-k", "10m", "--name", "older").returncode == 3
    assert terminal.run("run", "hello.py", "-k", "10m", "--name", "newer").returncode == 0
    (listed,) = terminal.document("jobs", "--status", "Failed", "--limit", "1")["jobs"]
    assert listed["base_name"] == "older"
    (newest,) = terminal.document("jobs", "--limit", "1")["jobs"]
    assert newest["base_name"] == "newer"


WAITS = "import os\nprint('begun', flush=True)\nopen(os.environ['SM_HP_GATE']).read()\n"


def test_a_job_is_described_for_people_and_for_programs(terminal: Terminal) -> None:
    found = terminal.document("describe", "first")
    assert found["TrainingJobName"].startswith("first-")
    assert (found["TrainingJobStatus"], found["ResourceConfig"]["KeepAlivePeriodInSeconds"]) == ("Completed", 600)
    assert found["CreationTime"].endswith("Z")
    shown = terminal.run("describe", "first").stdout
    assert json.loads(shown) == found
    assert shown.startswith('{\n  "TrainingJobName"')


def test_events_are_lines_of_json_and_are_followed_until_the_job_ends(terminal: Terminal) -> None:
    gate = terminal.folder / "gate-of-events"
    os.mkfifo(gate)
    script = terminal.script("gated.py", WAITS)
    name = terminal.document("run", script, "-k", "10m", "--hp", f"gate={gate}", "--detach")["name"]
    following = terminal.start("events", "--follow", name)
    assert following.stdout is not None
    first = json.loads(following.stdout.readline())
    assert first["detail"]["TrainingJobName"] == name
    gate.write_text("go")
    rest = [json.loads(line) for line in following.stdout]
    assert following.wait(30) == 0
    assert rest[-1]["detail"]["SecondaryStatus"] == "Completed"
    once = [json.loads(line) for line in terminal.run("events", name, "--json").stdout.splitlines()]
    assert [event["id"] for event in once] == [event["id"] for event in (first, *rest)]


URL = "ftp://me:hunter2@host/x"


def test_neither_secrets_of_variables_nor_of_urls_are_in_it() -> None:
    spec = JobSpec(
        kind="process",
        source="pass",
        environment={"HF_TOKEN": "hunter2", "A": "b", "DATABASE_URL": URL},
        hyperparameters={"db": URL},
        arguments=(URL,),
        channels=(Channel(name="a", source=URL),),
        outputs=(Output(name="b", path="b", destination=URL),),
        checkpoint=URL,
    )
    job = Job(id="1", name="job", spec=spec)
    found = document(job)
    assert b"hunter2" not in json.dumps(found).encode()
    assert found["spec"]["environment"] == {"HF_TOKEN": "", "A": "b", "DATABASE_URL": "ftp://me:…@host/x"}
    plain = to_builtins(job)
    hidden = {"environment", "hyperparameters", "arguments", "channels", "outputs", "checkpoint"}
    assert {name: value for name, value in found["spec"].items() if name not in hidden} == {
        name: value for name, value in plain["spec"].items() if name not in hidden
    }
