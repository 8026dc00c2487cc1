from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from jupyter_smx import cli, controller_launch
from jupyter_smx.kernel.subcommands.table import rows_on
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError
from jupyter_smx.model.records.event import PoolSummary
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.status import SecondaryStatus, is_final

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

    from jupyter_smx.model.records.job import Job as Record

POOL = PoolSummary(
    id="fe" * 8,
    name="m5-fefefe",
    engine="local",
    instances="ml.m5.xlarge × 1",
    state="Available",
    created_at=0.0,
    jobs_served=9,
    saved_seconds=780.0,
)


@pytest.fixture
def job(shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController) -> Any:
    assert shell.run_cell("%%train --as job\npass").success
    front_end.shown.clear()
    return next(iter(controller.jobs.values()))


def page(shell: InteractiveShell, front_end: Screenshots, line: str) -> Any:
    done = shell.run_cell(f"%smx {line}")
    if done.error_in_exec:
        raise done.error_in_exec
    return [shot["data"] for shot in front_end.shown if "transient" not in shot][-1]


def test_jobs_are_listed_as_text_and_as_a_table(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, job: Record
) -> None:
    exception = RemoteException(type="<b>", message="", traceback="", line=14)
    hosts = (HostEnd(host="algo-1", cause="exit", exception=exception),)
    controller.end(job.id, SecondaryStatus.FAILED, hosts=hosts)
    shown = page(shell, front_end, "jobs")
    assert f"{job.name}  Failed" in shown["text/plain"]
    assert "<b>, line 14" in shown["text/plain"]
    assert "&lt;b&gt;, line 14" in shown["text/html"]


def test_logs_are_printed_by_name_by_handle_and_for_the_last_job(
    shell: InteractiveShell, controller: ScriptedController, job: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.write(job.id, "hello\n")
    for word in (job.name, "job", ""):
        assert shell.run_cell(f"%smx logs {word}").success
        assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize(
    "word", ["{name}", "$name", "{ name }", "{job}", "$job", "{sdk.latest['name']}", "$sdk.other", "'{name}'"]
)
def test_a_job_is_named_by_a_variable_as_in_other_magics(
    shell: InteractiveShell, controller: ScriptedController, job: Record, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    shell.user_ns |= {"name": job.name, "sdk": SimpleNamespace(latest={"name": job.name}, other=job.name)}
    shell.run_cell("%%train\npass")  # the last job of the kernel is another one
    controller.write(job.id, "hello\n")
    capsys.readouterr()
    assert shell.run_cell(f"%smx logs {word}").success
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("{nam}", "no variable 'nam'. .*Did you mean name"),
        ("$nam", "no variable 'nam'"),
        ("{job_name}", "no variable 'job_name'"),
        ("$job_name", "no variable 'job_name'"),
        ("{empty}", "JOB: {empty} is empty"),
        ("$number", "JOB: \\$number is a int"),
        ("{broken}", "JOB: {broken} is a Broken"),
        ("{name.upper()}", "not a notebook variable"),
        ("$$name", "not a notebook variable"),
    ],
)
def test_a_variable_without_a_job_stops_no_job(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, job: Record, word: str, text: str
) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    shell.user_ns |= {"name": job.name, "empty": "", "number": 3, "broken": Broken()}
    with pytest.raises(ValidationError, match=text) as caught:
        page(shell, front_end, f"stop {word}")
    assert caught.value.field == "job"
    assert not is_final(controller.jobs[job.id].state)


@pytest.mark.parametrize("line", ["why", "stop", "logs", "diff", "export"])
def test_help_in_a_notebook_has_the_forms_of_a_variable_and_that_of_a_terminal_has_not(
    shell: InteractiveShell, front_end: Screenshots, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    form = "{name} or $name takes it from a variable"
    assert form in " ".join(page(shell, front_end, f"{line} --help")["text/plain"].split())
    assert cli.main([line, "--help"]) == 0
    text = capsys.readouterr().out
    assert "the beginning of one" in " ".join(text.split())
    assert "$name" not in text


def test_help_of_a_pool_has_no_variable(shell: InteractiveShell, front_end: Screenshots) -> None:
    assert "$name" not in page(shell, front_end, "release --help")["text/plain"]


def test_config_stores_an_expression_as_it_is(shell: InteractiveShell, front_end: Screenshots) -> None:
    shell.user_ns["name"] = "x"
    assert "{name}" in page(shell, front_end, "config role={name}")["text/plain"]


def test_logs_are_followed_to_the_end(
    shell: InteractiveShell, controller: ScriptedController, job: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.write(job.id, "hello\n")
    controller.end(job.id)
    assert shell.run_cell("%smx logs -f").success
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("logs --tail 1", "c"),
        ("logs --tail=2 job", "b\nc"),
        ("logs job --tail 0", ""),
        ("logs -f --tail 2", "b\nc"),
        ("logs --host ALGO-1 --tail 9", "a\nb\nc"),
    ],
)
def test_the_end_of_a_log_is_enough(
    shell: InteractiveShell,
    controller: ScriptedController,
    job: Record,
    capsys: pytest.CaptureFixture[str],
    line: str,
    shown: str,
) -> None:
    controller.write(job.id, "a\nb\nc")
    controller.end(job.id)
    assert shell.run_cell(f"%smx {line}").success
    assert capsys.readouterr().out == shown


@pytest.mark.usefixtures("front_end")
def test_each_way_to_see_a_long_log_in_a_cell_shows_its_first_and_last_lines(
    shell: InteractiveShell,
    controller: ScriptedController,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    text = "".join(f"{number}\n" for number in range(300_000))
    controller.on_submit = lambda fake, job: (fake.write(job.id, text), fake.end(job.id))
    for cell in ("%%train --wait --as job\npass", "%smx logs job", "%smx logs job -f", "job.follow()"):
        assert shell.run_cell(cell).success
        shown = capsys.readouterr().out
        assert shown.startswith("0\n1\n")
        assert "299999\n" in shown
        assert len(shown) < 1_001_000
        assert ") are left out here.\n" in shown
    assert shell.run_cell("whole = job.logs()").success
    assert shell.user_ns["whole"] == text


class Pieces(io.StringIO):
    """Standard output that remembers what was written at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, text: str) -> int:
        self.sizes.append(len(text))
        return super().write(text)


def test_a_long_log_is_written_as_it_is_read_and_never_held_as_a_whole(
    shell: InteractiveShell, controller: ScriptedController, job: Record
) -> None:
    text = "0123456789abcde\n" * 100_000
    controller.write(job.id, text)
    controller.end(job.id)
    for show in (lambda: shell.run_cell("%smx logs"), lambda: cli.main(["logs", job.name])):
        out = Pieces()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            show()
        assert out.getvalue() == text
        assert max(out.sizes) <= 300_000


def test_a_job_is_stopped(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, job: Record
) -> None:
    assert "Stopped" in page(shell, front_end, "stop job")["text/plain"]
    assert controller.jobs[job.id].state is SecondaryStatus.STOPPED


def test_a_stop_of_a_job_that_is_over_says_so(shell: InteractiveShell, front_end: Screenshots, job: Record) -> None:
    assert "over already" not in page(shell, front_end, "stop job")["text/plain"]
    assert page(shell, front_end, "stop job")["text/plain"] == f"{job.name} was over already: Stopped."
    assert shell.run_cell("%%train --sweep --hp lr=[1,2] --as grid\npass").success
    assert "over already" not in page(shell, front_end, "stop grid")["text/plain"]
    assert page(shell, front_end, "stop grid")["text/plain"].endswith(" was over already: 0 of 2 done, 2 stopped.")


def test_why_answers(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, job: Record
) -> None:
    assert "has no hosts yet" in page(shell, front_end, "why")["text/plain"]
    controller.run(job.id)
    assert "Cold: there was no warm pool." in page(shell, front_end, f"why {job.name}")["text/plain"]


def test_pools_are_listed_extended_and_released(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController
) -> None:
    assert "No warm pools" in page(shell, front_end, "pools")["text/plain"]
    controller.pools[POOL.name] = POOL
    assert "m5-fefefe  Available" in page(shell, front_end, "pools")["text/plain"]
    assert "expires in 15 min" in page(shell, front_end, "extend m5-fefefe 15m")["text/plain"]
    assert controller.pools[POOL.name].expires_at == pytest.approx(time.time() + 900, abs=5)
    assert "Releasing" in page(shell, front_end, "release m5-fefefe")["text/plain"]
    with pytest.raises(ResourceNotFoundError):
        page(shell, front_end, "release m5-fefefe")


def test_pools_name_their_images_where_any_has_one(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.pools[POOL.name] = POOL
    assert "IMAGE" not in page(shell, front_end, "pools")["text/plain"], "nothing here is made of one"
    image = Image(name="hub.example.com/train:1", id="sha256:7e0c55d90a31" + "0" * 52)
    of_image = replace(POOL, id="ad" * 8, name="docker-adadad", engine="docker", image=image)
    controller.pools[of_image.name] = of_image
    shown = page(shell, front_end, "pools")
    assert ">IMAGE</th>" in shown["text/html"]
    capsys.readouterr()
    assert cli.main(["pools"]) == 0
    for text in (shown["text/plain"], capsys.readouterr().out.rstrip()):
        head, *rows = text.splitlines()
        at = head.index("IMAGE")
        assert [row[at : head.index("JOBS")].strip() for row in rows] == ["", "hub.example.com/train:1 (7e0c55d90a31)"]
    assert cli.main(["pools", "--json"]) == 0
    told = msgspec.json.decode(capsys.readouterr().out)["pools"]
    assert [pool["image"] and pool["image"]["name"] for pool in told] == [None, image.name]


@pytest.mark.usefixtures("controller")
def test_the_doctor_tells_what_it_finds(shell: InteractiveShell, front_end: Screenshots) -> None:
    text = page(shell, front_end, "doctor")["text/plain"]
    for words in ("python:", "data folder:", "already running", "isolation:", "mode: variables", "engines: local"):
        assert words in text


def test_the_first_cell_and_the_doctor_say_that_the_records_end_with_this_machine(
    shell: InteractiveShell,
    front_end: Screenshots,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "records:" not in page(shell, front_end, "doctor")["text/plain"]
    monkeypatch.setattr(controller_launch, "records_note", lambda: "The records are elsewhere.")
    for _ in range(2):
        assert shell.run_cell("%%train\npass").success
    assert capsys.readouterr().err == "The records are elsewhere.\n"
    assert "records: The records are elsewhere." in page(shell, front_end, "doctor")["text/plain"]


def test_without_a_word_the_subcommands_are_listed(shell: InteractiveShell, front_end: Screenshots) -> None:
    text = page(shell, front_end, "")["text/plain"]
    assert all(f"%smx {name}" in text for name in (row.name for row in rows_on("notebook")))


@pytest.mark.usefixtures("front_end")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("jobs now", "'now' is an unexpected argument. Usage: %smx jobs"),
        ("extend m5", "are required: DURATION. Usage: %smx extend POOL DURATION"),
        ("extend m5 soon", "'soon' is not a duration"),
        ("release", "are required: POOL. Usage: %smx release POOL"),
        ("stop a other", "'other' is an unexpected argument. Usage: %smx stop [JOB] [--abandon]"),
        ("logs", "There is no job yet"),
        ("logs --tail many", "--tail: 'many' is not a number of lines"),
        ("logs --tail -1", "--tail: '-1' is not a number of lines"),
        ("logs --tail", "--tail needs a value"),
        ("logs --tial 3", "Did you mean --tail"),
        ("logs a b", "'b' is an unexpected argument"),
        ("rerun x", "There is no job 'x'"),
        ("rerunn x", "Did you mean rerun"),
        ("config keep_alve=1m", "Did you mean keep_alive"),
        ("config keep_alive", "has no ="),
        ("config engine=ray keep_alive=soon", "'soon' is not a duration"),
    ],
)
def test_wrong_use_is_one_sentence(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, sentence: str
) -> None:
    done = shell.run_cell(f"%smx {line}")
    assert done.error_in_exec is not None
    shown = capsys.readouterr().out
    assert sentence in shown
    assert "Traceback" not in shown


def test_the_command_line_has_the_same_subcommands_and_an_exit_code(
    controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.pools[POOL.name] = POOL
    assert cli.main(["pools"]) == 0
    assert "m5-fefefe" in capsys.readouterr().out
    assert cli.main(["pols"]) == 2
    assert "Did you mean pools" in capsys.readouterr().err
    assert cli.main(["why", "nobody"]) == 1
    assert "There is no job 'nobody'" in capsys.readouterr().err
    assert cli.main([]) == 0
    assert "jupyter smx release POOL" in capsys.readouterr().out


def test_words_of_a_line_may_stand_in_quotes(
    shell: InteractiveShell, front_end: Screenshots, tmp_path: Path, job: Record
) -> None:
    page(shell, front_end, f"export '{job.name}' \"{tmp_path}/my folder\"")
    assert (tmp_path / "my folder" / "sagemaker_job.py").is_file()
    with pytest.raises(ValidationError, match="never closed"):
        page(shell, front_end, f'export {job.name} "{tmp_path}/x')
