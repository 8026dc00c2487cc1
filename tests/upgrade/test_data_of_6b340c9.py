"""A data folder of 6b340c9 opens: jobs, arrays, the pool, events, logs, files and pages are what that commit said."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from recorded_data import IDLE, Asker, controller, placeholders, replace_words, restore

from jupyter_smx import cli

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

OF_THE_IDLE_TIME = {"cost", "retained_seconds", "resource_retained_billable_seconds"}
"""What the last job costs grows until its pool's end, which is when a controller sees that the host is gone."""
IDLE_PRICE = 0.36


def without_idle_time(value: Any, *, inside: bool = False) -> Any:
    """Leave out of the last job what depends on when its pool ended."""
    if isinstance(value, list):
        return [without_idle_time(each, inside=inside) for each in value]
    if not isinstance(value, dict):
        return value
    inside = inside or str(value.get("name", "")).startswith("last-")
    left_out = OF_THE_IDLE_TIME if inside else ()
    return {name: without_idle_time(each, inside=inside) for name, each in value.items() if name not in left_out}


def without_newer_fields(new: Any, old: Any) -> Any:
    """Leave out fields that the old answer does not have: programs that read the old fields ignore them."""
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [without_newer_fields(*pair) for pair in zip(new, old, strict=True)]
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    return {name: without_newer_fields(each, old[name]) for name, each in new.items() if name in old}


def test_each_answer_is_what_the_old_controller_answered(asker: Asker, said: dict[str, Any], tmp_path: Path) -> None:
    old = {path: answer for path, answer in said.items() if path.startswith("/v1/")}
    new = asker.answers()
    assert list(new) == list(old)
    changes, recorded = "/v1/changes?since=0", len(rows_of(restore(tmp_path, 600.0))["events"])
    events = old.pop(changes)["events"][:recorded]
    assert without_newer_fields(new.pop(changes)["events"][:recorded], events) == events
    for path, answer in old.items():
        assert without_idle_time(without_newer_fields(new[path], answer)) == without_idle_time(answer), path


def test_what_was_recorded_has_each_kind_of_end(asker: Asker) -> None:
    statuses = {job["name"].partition("-")[0]: job["status"] for job in asker.get("/v1/jobs?tasks=0")["jobs"]}
    assert statuses == {
        "last": "Completed",
        "endless": "Stopped",
        "alone": "Completed",
        "broken": "Failed",
        "squares": "Completed",
        "fit": "Completed",
    }
    assert [task["status"] for task in asker.get("/v1/arrays/grid")["tasks"]] == ["Completed"] * 3


@pytest.fixture
def pool_end(state: str, short_folder: Path, restored: Asker) -> dict[str, Any]:
    """Say how the recorded pool ended whose keep-alive is over, or not."""
    if state == "kept":
        return restored.wait_for_pool_end()
    restore(short_folder, -60.0)
    with controller(short_folder) as asker:
        return asker.wait_for_pool_end()


@pytest.mark.parametrize("state", ["kept", "expired"])
def test_a_pool_whose_host_is_gone_ends_as_it_did(state: str, pool_end: dict[str, Any], said: dict[str, Any]) -> None:
    old = deepcopy(said[f"pool: {state}"])
    for told in (pool_end, old):
        idle, bill = told["pool"].pop("idle_seconds"), told["bill"]
        retained = told["job"].pop("resource_retained_billable_seconds")
        assert IDLE <= retained == bill.pop("retained_seconds") <= idle
        cost = bill.pop("cost")
        assert cost == bill["groups"][0].pop("cost")
        assert cost == pytest.approx((retained + bill["billable_seconds"]) * IDLE_PRICE / 3600)
        assert told["pool"].pop("idle_cost") == pytest.approx(idle * IDLE_PRICE / 3600)
    assert without_newer_fields(pool_end, old) == old
    assert old["pool"]["state"] == "Terminated"


def test_records_of_ended_jobs_are_not_written_again(asker: Asker, tmp_path: Path) -> None:
    untouched = restore(tmp_path, 600.0)
    assert asker.get("/v1/")["epoch"] > 1
    now, then = (rows_of(data) for data in (asker.folder / "data", untouched))
    last = asker.get("/v1/jobs/last")["id"]
    assert now["alembic_version"] == then["alembic_version"]
    for table in ("jobs", "arrays", "tasks", "runs"):
        unlike = {one[0] for one in {*now[table]} ^ {*then[table]}}
        assert unlike <= {last}, table


def rows_of(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Read the tables; paths are those of the placeholders."""
    words = placeholders(data.parent)

    def plain(value: Any) -> Any:
        return replace_words(value, words) if isinstance(value, bytes) else value

    with closing(sqlite3.connect(data / "smx.sqlite")) as records:
        names = [name for (name,) in records.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: [tuple(map(plain, row)) for row in records.execute(f"SELECT * FROM {name}")]  # noqa: S608
            for name in names
        }


def test_each_page_of_the_command_is_as_it_was(
    asker: Asker, said: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in said.items():
        if name.startswith("page: "):
            assert cli.main(name.split()[1:]) == 0, name
            shown = replace_words(capsys.readouterr().out.encode(), placeholders(asker.folder)).decode()
            assert unaligned(shown) == unaligned(text), name


def unaligned(page: str) -> list[list[str]]:
    """Give the words of a page by line: how wide columns are depends on the length of paths."""
    return [line.split() for line in page.splitlines()]


def test_the_magics_read_the_jobs(
    shell: InteractiveShell, said: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("smx", "why fit")
    assert capsys.readouterr().out.strip() == said["page: why fit"].strip()
    done = shell.run_cell('import jupyter_smx as smx\njob = smx.job("fit")\n(job.status, job.result(), job.logs())')
    log = "hello epoch 1 loss 0.5\nhello epoch 2 loss 0.25\n"
    assert done.result == ("Completed", {"total": 60}, log)
