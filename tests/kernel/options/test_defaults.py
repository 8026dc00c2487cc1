from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_smx.kernel.api import session
from jupyter_smx.model.options.table import TABLE

if TYPE_CHECKING:
    from conftest import Screenshots
    from scripted_controller import ScriptedController

pytestmark = pytest.mark.usefixtures("front_end")


def newest(controller: ScriptedController) -> Any:
    return list(controller.jobs.values())[-1].spec


def test_defaults_of_a_kernel_stand_where_the_line_does_not_say_it(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    assert shell.run_cell("%smx config keep_alive=10m instance-type=ml.m5.large").success
    assert shell.run_cell("%%train\npass").success
    assert (newest(controller).keep_alive, newest(controller).instances()) == (600, "ml.m5.large × 1")
    assert shell.run_cell("%%process -k 0 -t local\npass").success
    assert (newest(controller).keep_alive, newest(controller).instances()) == (0, "local × 1")
    assert shell.run_cell("%%train -g a:local:2\npass").success
    assert newest(controller).instances() == "local × 2"
    assert shell.run_cell("%smx config keep_alive=").success
    assert shell.run_cell("%%train\npass").success
    assert (newest(controller).keep_alive, newest(controller).instances()) == (None, "ml.m5.large × 1")


def test_an_image_stands_where_hosts_are_made_of_one(shell: InteractiveShell, controller: ScriptedController) -> None:
    assert shell.run_cell("%smx config image=train:1").success
    for line, image in (("", ""), ("-e local", ""), ("-e docker", "train:1"), ("-e docker --image other", "other")):
        assert shell.run_cell(f"%%train {line}\npass").success
        assert newest(controller).image == image
    assert shell.run_cell("%smx config engine=docker").success
    for line, image in (("", "train:1"), ("-e local", "")):
        assert shell.run_cell(f"%%train {line}\npass").success
        assert newest(controller).image == image


def test_a_wrong_word_changes_nothing(shell: InteractiveShell, controller: ScriptedController) -> None:
    assert not shell.run_cell("%smx config keep_alive=10m engin=ray").success
    assert shell.run_cell("%%train\npass").success
    assert newest(controller).keep_alive is None


def test_the_page_says_what_is_set_here(shell: InteractiveShell, front_end: Screenshots) -> None:
    assert shell.run_cell("%smx config keep_alive=1h").success
    lines = front_end.shown[-1]["data"]["text/plain"].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert list(rows) == [*(option.name for option in TABLE if option.configurable), "card"]
    assert (rows["engine"], rows["image"], rows["max_run"], rows["card"]) == (["local"], [], ["1d"], ["auto"])
    assert rows["keep_alive"] == ["1h", "this", "kernel"]


def test_how_cards_are_drawn_is_one_of_three(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_cell("%smx config card=widget").success
    assert session.current_session().screen.style == "widget"
    assert not shell.run_cell("%smx config card=widgt").success
    assert "Did you mean widget" in capsys.readouterr().out
    assert shell.run_cell("%smx config card=").success
    assert session.current_session().screen.style == "auto"


@pytest.mark.usefixtures("shell")
def test_a_configuration_file_sets_them_for_every_kernel(controller: ScriptedController) -> None:
    session.close_session()
    configured = {"SmxMagics": {"keep_alive": "2m"}, "HistoryManager": {"enabled": False}}
    other = InteractiveShell(config=Config(configured))
    other.run_line_magic("load_ext", "jupyter_smx")
    assert other.run_cell("%%train\npass").success
    assert newest(controller).keep_alive == 120
