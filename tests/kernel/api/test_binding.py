from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.display.card import MIME
from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

PATIENCE = 10.0


def end(controller: ScriptedController, folder: Path, job_id: str, value: str) -> None:
    path = folder / f"{job_id}.pkl"
    path.write_bytes(pickle.dumps({"model": pickle.dumps(value)}))
    controller.end(job_id, artifacts=(Artifact(name="result.pkl", path=str(path), size=1),))


def test_who_has_waited_has_the_variables_even_while_the_card_is_being_drawn(
    shell: InteractiveShell,
    front_end: Screenshots,
    controller: ScriptedController,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shell.run_cell("%%train --receive model --as job\nmodel = 1").success
    drawing, go_on = threading.Event(), threading.Event()
    publish = front_end.publish

    def slow(data: dict[str, Any], metadata: object = None, **how: Any) -> None:
        if data[MIME]["summary"]["ended_at"] and threading.current_thread() is not threading.main_thread():
            drawing.set()
            assert go_on.wait(PATIENCE)
        publish(data, metadata, **how)

    monkeypatch.setattr(front_end, "publish", slow)
    job = shell.user_ns["job"]
    end(controller, tmp_path, job.id, "new")
    assert drawing.wait(PATIENCE), "the watcher's thread has the news and is not done with it"
    try:
        job.wait(PATIENCE)
        session.current_session().bind_finished_jobs()
        assert shell.user_ns["model"] == "new"
    finally:
        go_on.set()


def test_variables_are_bound_in_the_order_of_the_verdicts(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, tmp_path: Path
) -> None:
    del front_end  # a person is there, so nothing waits
    for name in ("first", "second"):
        assert shell.run_cell(f"%%train --receive model --as {name}\nmodel = 1").success
    first, second = (shell.user_ns[name] for name in ("first", "second"))
    end(controller, tmp_path, second.id, "of the second")
    end(controller, tmp_path, first.id, "of the first")
    first.wait(PATIENCE)
    second.wait(PATIENCE)
    assert shell.run_cell("seen = 1").success
    assert shell.user_ns["model"] == "of the first"


def test_a_cell_that_waits_ends_with_the_card_of_the_end(
    shell: InteractiveShell,
    front_end: Screenshots,
    controller: ScriptedController,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually_blocking: Any,
) -> None:
    screen, go_on = session.current_session().screen, threading.Event()
    update = screen.update

    def slow(card: Any) -> None:
        if card.is_final and threading.current_thread() is not threading.main_thread():
            assert go_on.wait(PATIENCE)
        update(card)

    def follow(job: Job, _stream: object) -> None:
        end(controller, tmp_path, job.id, "new")
        eventually_blocking(lambda: is_final(job.latest_record.state), "the watcher stands before the card")

    monkeypatch.setattr(screen, "update", slow)
    monkeypatch.setattr(Job, "follow", follow)
    try:
        assert shell.run_cell("%%train --receive model --wait\nmodel = 1").success
        assert front_end.cards()[-1]["summary"]["status"] == "Completed"
    finally:
        go_on.set()
