from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.display.start_card import StartCard
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


class Starts:
    """Starts the fake controller on demand, and notes what the front end had drawn until then."""

    def __init__(self, controller: ScriptedController) -> None:
        self._controller = controller
        self.front_end: Screenshots | None = None
        self.shown: list[list[dict[str, Any]]] = []
        self.error: BaseException | None = None

    def __call__(self, report: object = None) -> None:
        del report
        self.shown.append(self.front_end.cards() if self.front_end else [])
        if self.error is not None:
            raise self.error
        self._controller.start()


@pytest.fixture
def starts(controller: ScriptedController, monkeypatch: pytest.MonkeyPatch) -> Starts:
    """Let no controller run, and watch its start; to be asked for before the shell, whose client keeps the start."""
    made = Starts(controller)
    monkeypatch.setattr(autostart, "start", made)
    controller.stop()
    return made


@pytest.mark.parametrize(
    ("cell", "title"),
    [
        ("%%train --name fit\npass", "fit-"),
        ("%%train --job-name Fit-1\npass", "Fit-1"),
        ("%%train --sweep --hp lr=[1,2]\npass", "train-"),
    ],
)
def test_a_card_stands_before_the_controller_does_and_becomes_the_first_card(
    starts: Starts, shell: InteractiveShell, front_end: Screenshots, cell: str, title: str
) -> None:
    starts.front_end = front_end
    assert shell.run_cell(cell).success
    ((card,),) = starts.shown
    assert card["submission"] == "starting"
    first, second = front_end.shown[:2]
    assert first["data"]["text/plain"].endswith("Starting the controller…")
    assert (first["transient"], "update" in first) == (second["transient"], False)
    assert second["update"] is True
    later = front_end.cards()[1]
    assert (later["id"], later["name"]) == (card["id"], card["name"])
    assert later["name"].startswith(title)
    assert later.get("summary") or later.get("array")


def test_with_a_controller_the_first_card_is_that_of_the_job(
    starts: Starts, shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController
) -> None:
    controller.start()
    assert shell.run_cell("%%train\npass").success
    assert starts.shown == []
    assert "update" not in front_end.shown[0]
    assert front_end.cards()[0]["summary"]["status"] == "InProgress"


@pytest.mark.parametrize("error", [UnavailableError("It does not start."), KeyboardInterrupt()])
def test_a_card_whose_controller_does_not_start_says_that_there_is_no_job(
    starts: Starts, shell: InteractiveShell, front_end: Screenshots, error: BaseException
) -> None:
    starts.front_end, starts.error = front_end, error
    assert not shell.run_cell("%%train --name fit\npass").success
    begun, failed = front_end.cards()
    assert failed == begun | {"submission": "failed"}
    assert front_end.shown[1]["update"] is True
    assert "The submission failed" in front_end.shown[1]["data"]["text/html"]


@pytest.mark.usefixtures("starts")
def test_a_terminal_has_one_line_for_a_job(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMX_WAIT", "0")
    assert shell.run_cell("%%train --name fit\npass").success
    assert "Starting" not in capsys.readouterr().out


def test_a_name_is_text_in_html() -> None:
    card = StartCard(id="ab" * 16, name="<b>", at=1.0)
    assert "<b>" not in card.bundle()["text/html"]
