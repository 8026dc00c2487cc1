"""One line below the next cell for a kept pool of this kernel that something else ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx
from jupyter_smx.kernel.api.pool_notices import EXPECTED_ENDS, PoolNotices
from jupyter_smx.model.records.cluster import WarmPool, WarmPoolStatus
from jupyter_smx.model.records.event import PoolSummary
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

    from jupyter_smx.kernel.handles.job import Job

POOL = "fe" * 16
AVAILABLE = WarmPool(status=WarmPoolStatus.AVAILABLE)
EVICTED = WarmPool(status=WarmPoolStatus.TERMINATED, reason="Released early to make room for other-1.")


class Desk:
    """A notebook whose jobs leave a pool, and what its cells print."""

    def __init__(
        self, shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.shell = shell
        self.controller = controller
        self._capsys = capsys

    def job(self, name: str = "mine", pool: WarmPool = AVAILABLE) -> Job:
        """Run a job to its end."""
        assert self.shell.run_cell(f"%%train --name {name} --as {name}\npass").success
        job: Job = self.shell.user_ns[name]
        self.controller.end(job.id, cluster=POOL, warm_pool=pool)
        job.wait(30)
        self._capsys.readouterr()
        return job

    def cell(self, code: str = "1") -> list[str]:
        """Run a cell and return the lines of its standard error."""
        assert self.shell.run_cell(code).success
        return self._capsys.readouterr().err.splitlines()


@pytest.fixture
def desk(
    shell: InteractiveShell,
    front_end: Screenshots,  # noqa: ARG001 - a person is there
    controller: ScriptedController,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    monkeypatch.setattr("jupyter_smx.kernel.api.pool_notices._INTERVAL", 0.0)
    return Desk(shell, controller, capsys)


def others_job(desk: Desk, name: str, **fields: Any) -> str:
    """Let a job of another client run on the pool; return its name."""
    made = next(iter(desk.controller.jobs.values()))
    other = desk.shell.user_ns["mine"]._client.submit(name.encode().hex().ljust(32, "0"), made.spec)
    desk.controller.change(other.id, name=name, cluster=POOL, **fields)
    return name


def test_a_pool_that_another_job_evicts_is_reported_once_with_the_reason(desk: Desk) -> None:
    job = desk.job()
    assert desk.cell() == []
    desk.controller.change(job.id, warm_pool=EVICTED)
    (line,) = desk.cell()
    assert line.startswith(f"The warm pool of {job.name} ended before its keep-alive: Released early to make room for ")
    assert line.endswith("other-1. A job that needs it starts cold.")
    assert desk.cell() == []


def test_a_job_of_another_client_that_ends_the_pool_is_named(desk: Desk) -> None:
    job = desk.job()
    ended = WarmPool(status=WarmPoolStatus.TERMINATED, reason="The job asked for no keep-alive.")
    other = others_job(desk, "theirs", state=SecondaryStatus.TRAINING, warm_pool=WarmPool(status=WarmPoolStatus.IN_USE))
    desk.controller.change(job.id, warm_pool=WarmPool(status=WarmPoolStatus.REUSED, reused_by_job=other))
    assert desk.cell() == [], "the pool is in use"
    others_job(desk, "theirs", state=SecondaryStatus.COMPLETED, warm_pool=ended)
    (line,) = desk.cell()
    assert f"The warm pool of {job.name} ended before its keep-alive, after theirs used it: The job asked" in line


@pytest.mark.parametrize("reason", sorted(EXPECTED_ENDS))
def test_an_end_that_the_user_expects_is_not_reported(desk: Desk, reason: str) -> None:
    job = desk.job()
    desk.controller.change(job.id, warm_pool=WarmPool(status=WarmPoolStatus.TERMINATED, reason=reason))
    assert desk.cell() == []


def test_the_expected_reasons_are_those_of_the_controller() -> None:
    folder = Path(jupyter_smx.__file__).parent / "controller" / "scheduling"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert {reason for reason in EXPECTED_ENDS if f'"{reason}"' in text} == EXPECTED_ENDS


def test_a_pool_that_this_kernel_releases_or_ends_by_a_job_is_not_reported(desk: Desk) -> None:
    job = desk.job()
    desk.controller.pools["local-fe"] = PoolSummary(
        id=POOL, name="local-fe", engine="local", instances="local × 1", state="Available", created_at=0.0
    )
    desk.cell("%smx release local-fe")
    desk.controller.change(job.id, warm_pool=EVICTED)
    assert desk.cell() == []


def test_a_later_job_of_this_kernel_that_ends_the_pool_is_not_reported(desk: Desk) -> None:
    first = desk.job()
    ended = WarmPool(status=WarmPoolStatus.TERMINATED, reason="The job asked for no keep-alive.")
    second = desk.job("last", ended)
    desk.controller.change(first.id, warm_pool=WarmPool(status=WarmPoolStatus.REUSED, reused_by_job=second.name))
    assert desk.cell() == []


def test_a_running_job_of_this_kernel_reports_the_end_of_its_pool_itself(desk: Desk) -> None:
    first = desk.job()
    assert desk.shell.run_cell("%%train --name second --as second\npass").success
    second = desk.shell.user_ns["second"]
    ended = WarmPool(status=WarmPoolStatus.TERMINATED, reason="The job asked for no keep-alive.")
    desk.controller.change(second.id, state=SecondaryStatus.TRAINING, cluster=POOL, warm_pool=ended)
    desk.controller.change(first.id, warm_pool=WarmPool(status=WarmPoolStatus.REUSED, reused_by_job=second.name))
    assert "ended before" not in "".join(desk.cell())
    desk.controller.end(second.id)
    second.wait(30)
    assert "ended before" not in "".join(desk.cell())


def test_the_pool_of_an_array_is_reported(desk: Desk) -> None:
    assert desk.shell.run_cell("%%train --sweep --hp lr=[1,2] --as grid\npass").success
    for task in desk.controller.jobs.values():
        desk.controller.end(task.id, cluster=POOL, warm_pool=AVAILABLE)
    desk.shell.user_ns["grid"].wait(30)
    assert desk.cell() == []
    for task in desk.controller.jobs.values():
        desk.controller.change(task.id, warm_pool=EVICTED)
    (line,) = desk.cell()
    assert "ended before its keep-alive: Released early" in line


def test_a_kernel_without_a_kept_pool_asks_nothing_and_one_with_it_starts_no_controller(desk: Desk) -> None:
    desk.job(pool=EVICTED)
    before = len(desk.controller.requests)
    desk.cell()
    assert len(desk.controller.requests) == before
    desk.job("kept")
    desk.cell()
    desk.controller.stop()
    assert desk.cell() == []
    assert desk.controller._server is None


def test_after_a_request_without_an_answer_cells_do_not_ask_for_a_while(desk: Desk) -> None:
    job = desk.job()
    desk.controller.stop()
    assert desk.cell() == []
    desk.controller.start()
    desk.controller.change(job.id, warm_pool=EVICTED)
    assert desk.cell() == [], "the pause is not over"


def test_a_reason_is_one_line_of_text(desk: Desk) -> None:
    job = desk.job()
    reason = "\x1b[31m<b>red\u202e</b>\n" + "x" * 5_000
    desk.controller.change(job.id, warm_pool=WarmPool(status=WarmPoolStatus.TERMINATED, reason=reason))
    (line,) = desk.cell()
    assert "keep-alive: <b>red</b> xxx" in line
    assert line.isprintable()
    assert len(line) < 400


def test_cells_one_after_another_cost_one_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_smx.kernel.api.pool_notices._INTERVAL", 60.0)
    looks: list[str] = []
    look = PoolNotices._look

    def count(notices: PoolNotices, client: Any, pool: str, *rest: Any) -> list[str]:
        looks.append(pool)
        return look(notices, client, pool, *rest)

    monkeypatch.setattr(PoolNotices, "_look", count)
    desk.job()
    assert [desk.cell() for _ in range(3)] == [[], [], []]
    assert looks == [POOL]
