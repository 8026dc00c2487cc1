"""Bad and strange input typed into a notebook, and notebooks that vanish, against everything together."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import start_new_kernel
from world import PATIENCE, failure, run_python

from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.name import NAME
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell
    from world import World


@pytest.fixture
def world(shared_world: World) -> World:
    """Provide the world of the module."""
    return shared_world


STRANGE = [
    '"it\'s"', '"two words"', "'a\nb'", "naïve", "日本", "🚀", "a/b", "../../etc/passwd", "--wait", "-x", "a_b", "''",
    "a--", "%00", "$(rm)", "`id`", "a;b", "x" * 64, "CON.", "a\\b",
]  # fmt: skip


@pytest.mark.parametrize("name", STRANGE, ids=range(len(STRANGE)))
def test_a_strange_name_is_refused_with_one_that_would_do(
    shared: World, warm_shell: InteractiveShell, name: str
) -> None:
    before = len(shared.client.jobs(1000))
    error = failure(warm_shell, f"%%train --keep-alive 10m --name={name}\nprint(1)")
    if name == "''":
        assert error is None, "no name at all is the default's"
        return
    assert isinstance(error, ValidationError), error
    assert error.field in {"name", "line"}
    assert len(shared.client.jobs(1000)) == before
    if error.field == "name":
        proposed = error.cure.split("'")[1]
        assert NAME.fullmatch(proposed), proposed


def test_jobs_of_one_name_are_told_apart_and_the_newest_answers_to_it(
    shared: World, warm_shell: InteractiveShell
) -> None:
    for number in range(3):
        assert failure(warm_shell, f"%%train --name twin --keep-alive 10m --as job --wait\nprint({number})") is None
    names = [job.name for job in shared.client.jobs(10) if job.base_name == "twin"]
    assert len(set(names)) == 3
    assert shared.client.job("twin").id == warm_shell.user_ns["job"].id
    assert shared.client.log("twin", "", 0).data == b"2\n"


EXPRESSIONS = [
    "None", "True", "0", "-1", "1.5", "1e300", "2**200", "''", "'two words'", "'ünï 🚀'", "'a\\nb'", "'--flag'", "'{}'",
    "'quote \\' and \"'", "[]", "{}", "[1, [2, {'a': None}]]", "{'a': [1.5]}", "'$HOME'", "(1, 2)",
]  # fmt: skip


def test_hyperparameters_of_every_shape_arrive_as_they_were(shared: World, warm_shell: InteractiveShell) -> None:
    del shared
    words = []
    for number, expression in enumerate(EXPRESSIONS):
        warm_shell.user_ns[f"v{number}"] = eval(expression)  # noqa: S307 - this test's own table
        words.append(f"--hp h{number}={{v{number}}}")
    path = "os.environ['SM_INPUT_CONFIG_DIR'] + '/hyperparameters.json'"
    code = f"import json, os\nprint(json.dumps(json.load(open({path}))))"
    assert failure(warm_shell, f"%%train --keep-alive 10m --as job --wait {' '.join(words)}\n{code}") is None
    (line,) = warm_shell.user_ns["job"].logs().strip().splitlines()
    told = json.loads(line)
    for number in range(len(EXPRESSIONS)):
        value = warm_shell.user_ns[f"v{number}"]
        text = told[f"h{number}"]
        found = text if isinstance(value, str) else json.loads(text)
        assert found == (list(value) if isinstance(value, tuple) else value), (value, text)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"bytes", "a bytes cannot be a hyperparameter"),
        ({1, 2}, "a set cannot be a hyperparameter"),
        (object(), "a object cannot be a hyperparameter"),
        (lambda: 1, "a function cannot be a hyperparameter"),
        (float("nan"), "nan"),
        ([1.0, float("inf")], "inf"),
        ({(1, 2): 3}, "cannot be a hyperparameter"),
        ("x" * 2501, "at most 2500 characters"),
        ("a\0b", "NUL"),
    ],
    ids=range(9),
)
def test_a_hyperparameter_that_json_cannot_hold_is_refused(
    shared: World, warm_shell: InteractiveShell, value: Any, says: str
) -> None:
    before = len(shared.client.jobs(1000))
    warm_shell.user_ns["value"] = value
    error = failure(warm_shell, "%%train --hp lr={value}\nprint(1)")
    assert isinstance(error, SmxError), error
    assert says in str(error)
    assert error.field == "hyperparameters"
    assert len(shared.client.jobs(1000)) == before


def test_a_hyperparameter_that_holds_itself_is_refused(shared: World, warm_shell: InteractiveShell) -> None:
    del shared
    warm_shell.user_ns["circle"] = circle = [1]
    circle.append(circle)  # type: ignore[arg-type]
    assert isinstance(failure(warm_shell, "%%train --hp lr={circle}\nprint(1)"), ValidationError)
    warm_shell.user_ns["deep"] = deep = []
    for _ in range(100_000):
        deep = [deep]
    warm_shell.user_ns["deep"] = deep
    assert isinstance(failure(warm_shell, "%%train --hp lr={deep}\nprint(1)"), ValidationError)


def test_a_cell_of_a_megabyte_runs_and_what_is_too_large_is_a_sentence(
    shared: World, warm_shell: InteractiveShell, record_property: Any
) -> None:
    filler = "# " + "x" * 98 + "\n"
    begin = time.perf_counter()
    cell = f"%%train --keep-alive 10m --as job --wait\n{filler * (2**20 // len(filler))}print('the end')"
    assert failure(warm_shell, cell) is None
    took = time.perf_counter() - begin
    record_property("seconds_for_a_cell_of_1_MiB", took)
    print(f"a cell of 1 MiB: {took:.2f} s from the cell to the verdict")  # noqa: T201
    assert warm_shell.user_ns["job"].logs() == "the end\n"
    assert took < 15
    before = len(shared.client.jobs(1000))
    for size in (4 * 2**20 + 200, 6 * 2**20):
        error = failure(warm_shell, f"%%train\n{filler * (size // len(filler) + 1)}print(1)")
        assert isinstance(error, ValidationError), error
        assert error.field == "source"
        assert "at most" in str(error) or "The maximum is" in str(error)
    assert len(shared.client.jobs(1000)) == before


# What vanishes meanwhile


def test_a_job_whose_notebook_folder_is_gone_ends_well_and_its_outputs_are_where_they_were_wanted(
    shared: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_shell: InteractiveShell
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SMX_WAIT", "0")
    gate = shared.gate()
    code = (
        f"import os, time\nprint('begun', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "open(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('m')\nreceived = 7"
    )
    assert (
        failure(warm_shell, f"%%train --keep-alive 10m --output model=out --receive received --as job\n{code}") is None
    )
    job = warm_shell.user_ns["job"]
    eventually_blocking(lambda: "begun" in job.logs(), "it began", within=PATIENCE)
    shutil.rmtree(folder)
    gate.touch()
    assert job.result()["received"] == 7
    assert (folder / "out" / "model.tar.gz").exists()
    # The next cell of this notebook has no folder to stand in: a sentence, and not a traceback.
    shutil.rmtree(folder)
    error = failure(warm_shell, "%%train --keep-alive 10m\nprint(1)")
    assert isinstance(error, SmxError), repr(error)
    assert "folder" in str(error)


FIND_AGAIN = """
import sys
import jupyter_smx as smx
print(smx.job(sys.argv[1]).result()["answer"], smx.job(sys.argv[1]).status)
"""


def test_a_kernel_that_is_restarted_finds_its_job_by_name_and_gets_its_variables(world: World) -> None:
    world.warm()
    gate = world.gate()
    source, word = world.source("answer = 6 * 7", gate=gate)
    manager, kernel = start_new_kernel(kernel_name="python3", env=dict(os.environ))
    try:
        cell = f"%%train --name awaited --keep-alive 5m --receive answer --wait\n{source}"
        kernel.execute("%load_ext jupyter_smx")
        kernel.execute(cell, allow_stdin=True)
        eventually_blocking(lambda: world.runs(word), "the code began", within=PATIENCE)
        manager.restart_kernel(now=True)
        kernel.wait_for_ready(timeout=PATIENCE)
        gate.touch()
        said: list[str] = []
        kernel.execute_interactive(
            "import jupyter_smx as smx\nprint('answer', smx.job('awaited').result()['answer'])",
            timeout=PATIENCE,
            output_hook=lambda message: said.append(message["content"].get("text", "")),
        )
        assert "answer 42" in "".join(said), said
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)
    # And from any other process, by any beginning of its name.
    assert run_python(FIND_AGAIN, "awaited").stdout.split() == ["42", "Completed"]
    assert (world.client.job("awaited").state, world.runs(word)) == (SecondaryStatus.COMPLETED, 1)


# Two hundred at once

SUBMIT_MANY = """
import json, os, secrets, sys, time
from jupyter_smx.kernel.client import autostart
from jupyter_smx.model.spec.job_spec import JobSpec
for place in sys.argv[1:]:
    if not os.fork():
        break
else:
    sys.exit(any([os.wait()[1] for _ in sys.argv[1:]]))
try:
    client = autostart.client()
    client.controller_info()
    code = "import signal; signal.pause()"
    spec = JobSpec(kind="train", source=code, base_name="flood", python=sys.executable, keep_alive=60)
except BaseException:
    os.write(1, b"failed\\n")
    raise
os.write(1, b"ready\\n")
sys.stdin.read()
rows = []
for _ in range(20):
    begin = time.perf_counter()
    job = client.submit(secrets.token_hex(16), spec)
    rows.append((job.id, job.name, time.perf_counter() - begin))
with open(place, "w") as file:
    json.dump(rows, file)
client.close()
"""
"""Ten processes, forked by one since their imports would take longer than all that they do."""


@pytest.mark.timeout(180)
def test_two_hundred_jobs_of_ten_kernels_in_a_second_are_all_taken(
    world: World, tmp_path: Path, record_property: Any
) -> None:
    world.warm()
    places = [tmp_path / f"rows-{number}" for number in range(10)]
    command = [sys.executable, "-c", SUBMIT_MANY, *places]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, start_new_session=True) as kernels:
        assert kernels.stdin is not None
        assert kernels.stdout is not None
        assert [kernels.stdout.readline() for _ in places] == ["ready\n"] * 10
        begin = time.perf_counter()
        kernels.stdin.close()
        try:
            assert kernels.wait(PATIENCE) == 0
        except subprocess.TimeoutExpired:
            os.killpg(kernels.pid, signal.SIGKILL)
            raise
    rows = [row for place in places for row in json.loads(place.read_text())]
    took = time.perf_counter() - begin
    waits = sorted(row[2] for row in rows)
    figures = f"200 jobs in {took:.2f} s; p50 {waits[100] * 1e3:.0f} ms, p99 {waits[198] * 1e3:.0f} ms"
    record_property("flood", figures)
    print(figures)  # noqa: T201
    assert len(rows) == 200
    assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == 200
    listed = {job.id for job in world.client.jobs(1000)}
    assert {row[0] for row in rows} <= listed, "none is lost"
    assert took < 20
    for job in rows:
        world.client.stop(job[0])
    eventually_blocking(
        lambda: all(job.ended_at is not None for job in world.client.jobs(1000)), "all are over", within=PATIENCE
    )
    assert len(world.controllers()) == 1
