"""The same magics in a real ipykernel, driven as nbclient and as JupyterLab drive it."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from jupyter_smx.kernel.display.card import MIME
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripted_controller import ScriptedController

pytestmark = pytest.mark.processes


def notebook(*cells: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


@pytest.fixture
def completes(controller: ScriptedController, tmp_path: Path) -> None:
    def play(fake: Any, job: Any) -> None:
        path = tmp_path / "result.pkl"
        path.write_bytes(pickle.dumps({"model": pickle.dumps("trained")}))
        fake.run(job.id)
        fake.write(job.id, "epoch 1\n")
        fake.end(job.id, artifacts=(Artifact(name="result.pkl", path=str(path), size=1),))

    controller.on_submit = play


@pytest.mark.usefixtures("completes")
def test_under_nbclient_a_notebook_run_top_to_bottom_means_what_it_says() -> None:
    nb = notebook("%load_ext jupyter_smx", "%%train --receive model\nmodel = 1", "print(model)")
    NotebookClient(nb, timeout=60, kernel_name="python3").execute()
    card, log = nb.cells[1].outputs
    assert card.data[MIME]["summary"]["status"] == "Completed"
    assert "Completed after" in card.data["text/html"]
    assert log.text == "epoch 1\n"
    assert nb.cells[2].outputs[0].text == "trained\n"


def test_under_nbclient_a_failed_job_fails_the_notebook_with_the_remote_traceback(
    controller: ScriptedController,
) -> None:
    trace = 'Traceback (most recent call last):\n  File "<train>", line 2, in <module>\nKeyError: 1\n'

    def fail(fake: Any, job: Any) -> None:
        exception = RemoteException(type="KeyError", message="1", traceback=trace, line=2)
        ended = HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception)
        fake.end(job.id, SecondaryStatus.FAILED, hosts=(ended,))

    controller.on_submit = fail
    nb = notebook("%load_ext jupyter_smx", "%%train\n{}[1]", "never = 1")
    with pytest.raises(CellExecutionError, match="JobFailed"):
        NotebookClient(nb, timeout=60, kernel_name="python3").execute()
    error = nb.cells[1].outputs[-1]
    assert error.ename == "JobFailed"
    assert 'File "<train>", line 2' in "\n".join(error.traceback)
    assert "handle.py" not in "\n".join(error.traceback)
    assert nb.cells[2].outputs == []


@pytest.fixture
def kernel(controller: ScriptedController) -> Iterator[Any]:  # noqa: ARG001 - it must be there first
    manager, client = start_new_kernel(kernel_name="python3", env=dict(os.environ))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def messages(client: Any, until: Any) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while not (seen and until(seen[-1])):
        seen.append(client.get_iopub_msg(timeout=30))
    return seen


def idle_after(request: str) -> Any:
    def is_it(message: dict[str, Any]) -> bool:
        return (
            message["msg_type"] == "status"
            and message["content"]["execution_state"] == "idle"
            and message["parent_header"].get("msg_id") == request
        )

    return is_it


def test_with_a_person_there_the_cell_ends_at_once_and_its_card_goes_on_changing(
    kernel: Any, controller: ScriptedController
) -> None:
    kernel.execute("%load_ext jupyter_smx", allow_stdin=True)
    shown = messages(kernel, idle_after(kernel.execute("%%train --as job\npass", allow_stdin=True)))
    (card,) = [message for message in shown if message["msg_type"] == "display_data"]
    (job,) = controller.jobs.values()
    assert card["content"]["data"][MIME]["summary"]["status"] == "InProgress"
    controller.end(job.id)
    *_, last = messages(
        kernel,
        lambda message: (
            message["msg_type"] == "update_display_data" and message["content"]["data"][MIME]["summary"]["ended_at"]
        ),
    )
    assert last["content"]["transient"] == card["content"]["transient"]
    assert "Completed" in last["content"]["data"]["text/html"]


@pytest.mark.usefixtures("completes")
def test_an_awaited_job_leaves_the_kernel_free(kernel: Any) -> None:
    kernel.execute("%load_ext jupyter_smx", allow_stdin=True)
    kernel.execute("%%train --as job --receive model\npass", allow_stdin=True)
    shown = messages(kernel, idle_after(kernel.execute("print((await job).model, job.status)", allow_stdin=True)))
    assert [message["content"]["text"] for message in shown if message["msg_type"] == "stream"] == [
        "trained Completed\n"
    ]
