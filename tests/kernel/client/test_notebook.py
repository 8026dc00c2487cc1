"""Which notebook and which cell a kernel runs for, by what front ends say and what they do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.request.origin import cell_id_of, notebook_of

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


def shell_of(request: dict[str, Any]) -> Any:
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: request))


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({"metadata": {"cellId": "5f9c1a3e-02"}}, "5f9c1a3e-02"),
        ({"metadata": {"cellId": "vscode-notebook-cell:/home/me/a.ipynb#W1"}}, ""),
        ({"metadata": {"cellId": "x" * 65}}, ""),
        ({"metadata": {"cellId": 7}}, ""),
        ({"metadata": {}}, ""),
        ({"metadata": None}, ""),
        ({}, ""),
    ],
)
def test_the_cell_is_the_one_that_the_request_names(request_: dict[str, Any], found: str) -> None:
    assert cell_id_of(shell_of(request_)) == found


def test_without_a_kernel_nobody_says_a_cell() -> None:
    assert cell_id_of(None) == ""
    assert cell_id_of(SimpleNamespace()) == ""


def test_the_notebook_is_named_by_the_server_or_by_vs_code() -> None:
    assert notebook_of({}, {"JPY_SESSION_NAME": "/n/a.ipynb"}) == "/n/a.ipynb"
    assert notebook_of({"__vsc_ipynb_file__": "/n/b.ipynb"}, {}) == "/n/b.ipynb"
    assert notebook_of({}, {}) == ""


@pytest.mark.usefixtures("front_end")
def test_a_job_knows_the_cell_that_handed_it_in(
    shell: InteractiveShell,
    controller: ScriptedController,
    front_end: Screenshots,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del front_end
    request = {"content": {"allow_stdin": True}, "metadata": {"cellId": "cell-1"}}
    monkeypatch.setattr(type(shell), "kernel", shell_of(request).kernel, raising=False)
    shell.run_cell("%%train\nx = 1\n").raise_error()
    (job,) = controller.jobs.values()
    assert job.spec.cell_id == "cell-1"
