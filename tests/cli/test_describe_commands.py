"""A job in SageMaker's words in a terminal."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Terminal

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
