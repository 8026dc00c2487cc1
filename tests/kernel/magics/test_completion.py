from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_smx import controller_launch
from jupyter_smx.engines import registry
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.subcommands import completion
from jupyter_smx.model.records.event import PoolSummary
from jupyter_smx.model.results.reports import EngineNames
from jupyter_smx.model.spec.instance import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Screenshots
    from scripted_controller import ScriptedController

POOL = PoolSummary(
    id="fe" * 8, name="m5-fefefe", engine="local", instances="local × 1", state="Available", created_at=0.0
)
MACHINES = ("gpu-box", "gpu-2.lab.example.org", "cpu_box")


def tab(shell: InteractiveShell, line: str) -> list[str]:
    _, found = shell.complete(None, line)
    return list(found)


@pytest.fixture
def names(shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController) -> tuple[str, str]:  # noqa: ARG001 - a person is there
    """Give the names of a finished and of a running job; there is a pool, too."""
    for name in ("digits", "census"):
        assert shell.run_cell(f"%%train --name {name}\npass").success
    finished, running = controller.jobs.values()
    controller.end(finished.id)
    controller.pools[POOL.name] = POOL
    return finished.name, running.name


@pytest.mark.parametrize(
    "subcommand", ["logs", "logs -f", "logs --tail 5 -f", "logs --streams", "why", "rerun", "describe", "events -f"]
)
def test_tab_offers_the_names_of_jobs(shell: InteractiveShell, names: tuple[str, str], subcommand: str) -> None:
    assert set(names) <= set(tab(shell, f"%smx {subcommand} "))
    assert tab(shell, f"%smx {subcommand} dig") == [names[0]]
    assert tab(shell, f"%smx {subcommand} {names[0]} cen") == []


def test_no_name_is_offered_where_a_number_of_lines_stands(shell: InteractiveShell, names: tuple[str, str]) -> None:
    assert not set(names) & set(tab(shell, "%smx logs --tail "))


def test_only_what_runs_can_be_stopped(shell: InteractiveShell, names: tuple[str, str]) -> None:
    for subcommand in ("stop", "interrupt"):
        found = tab(shell, f"%smx {subcommand} ")
        assert names[1] in found
        assert names[0] not in found


@pytest.mark.parametrize("subcommand", ["extend", "release"])
@pytest.mark.usefixtures("names")
def test_tab_offers_the_names_of_pools(shell: InteractiveShell, subcommand: str) -> None:
    assert tab(shell, f"%smx {subcommand} m") == [POOL.name]


def test_tab_offers_subcommands_their_flags_and_what_config_takes(shell: InteractiveShell) -> None:
    assert tab(shell, "%smx rer") == ["rerun"]
    assert tab(shell, "%smx logs -") == ["-f", "--tail", "--host", "--streams"]
    assert tab(shell, "%smx logs -f --t") == ["--tail"]
    assert tab(shell, "%smx events -") == ["-f"]
    assert "keep_alive=" in tab(shell, "%smx config keep")


@pytest.fixture
def lonely(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:  # noqa: ARG001 - set first
    """Give a shell where no controller is, and where starting one is seen."""

    started: list[str] = []  # raising would not be seen: IPython swallows what completion raises
    monkeypatch.setattr(autostart, "start", lambda _report: started.append("a controller"))
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()
    assert started == []


def test_tab_starts_no_controller(lonely: InteractiveShell, data_folder: Path) -> None:
    assert tab(lonely, "%smx stop zz") == []
    assert not data_folder.exists()


def test_tab_gives_up_on_a_controller_that_does_not_answer(lonely: InteractiveShell) -> None:
    controller_launch.ensure_folders()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(controller_launch.socket_address())
        silent.listen()
        began = time.monotonic()
        assert tab(lonely, "%smx stop zz") == []
        assert time.monotonic() - began < 3 * completion.QUERY_TIMEOUT + 1


def test_tab_gives_up_on_a_controller_that_hangs_up(shell: InteractiveShell, controller: ScriptedController) -> None:
    controller.lost_answers = 1000
    began = time.monotonic()
    assert tab(shell, "%smx stop zz") == []
    assert controller.lost_answers < 1000, "it was asked"
    assert time.monotonic() - began < 3 * completion.QUERY_TIMEOUT + 1


@pytest.fixture
def shell_with_engines(shell: InteractiveShell, controller: ScriptedController) -> InteractiveShell:
    engines = ("docker", "local", "ssh")
    controller.engine_names = {
        "": EngineNames(engines=engines),
        "local": EngineNames(engines=engines, instance_types=("local", "ml.t3.medium")),
        "ssh": EngineNames(engines=engines, targets=MACHINES, interpreters=("torch",)),
        "ssh:gpu-box": EngineNames(
            engines=engines, targets=MACHINES, interpreters=("tf", "torch"), instance_types=("gpu-box", "ml.t3.medium")
        ),
        "slurm": EngineNames(engines=engines, options={"partition": ("gpu", "main"), "time": ()}),
    }
    return shell


COMPLETED: list[tuple[str, list[str]]] = [
    ("--engine ", ["docker", "local", "ssh"]),
    ("-e ", ["docker", "local", "ssh"]),
    ("--name x --engine d", ["docker"]),
    ("--engine s", ["ssh", "ssh:gpu-box", "ssh:gpu-2.lab.example.org", "ssh:cpu_box"]),
    ("--engine ssh", ["ssh", "ssh:gpu-box", "ssh:gpu-2.lab.example.org", "ssh:cpu_box"]),
    ("--engine ssh:", [*MACHINES]),
    ("--engine ssh:gpu", ["gpu-box", "gpu-2.lab.example.org"]),
    ("--engine ssh:gpu-2.l", ["gpu-2.lab.example.org"]),
    ("--engine=ssh:c", ["cpu_box"]),
    ("--engine ssh:zz", []),
    ("--engine ssh:gpu-box --python ", ["tf", "torch"]),
    ("--engine=ssh:gpu-box --python to", ["torch"]),
    ("-e ssh --python ", ["torch"]),
    ("--engine ssh:gpu-box -t ", ["gpu-box", "ml.t3.medium"]),
    ("--engine ssh:gpu-box --instance-type g", ["gpu-box"]),
    ("-t ml", ["ml.t3.medium"]),
    ("--contract ", ["v2", "v3"]),
    ("--distribution t", ["torchrun"]),
    ("-d torchrun,", ["processes=", "groups="]),
    ("--input train=data,mode=F", ["File", "FastFile"]),
    ("--input train=data,dist", ["distribution="]),
    ("--group data:ml", ["ml.t3.medium:"]),
    ("--engine slurm --engine-option ", ["partition=", "time="]),
    ("--engine slurm --engine-option part", ["partition="]),
    ("--engine slurm --engine-option partition=", ["gpu", "main"]),
    ("--engine slurm --engine-option=partition=m", ["main"]),
    ("--engine slurm --engine-option partition=gpu,m", ["main"]),
    ("--keep-alive 10m --keep", []),
    ("--hp a=1 --hp b=2 --hp", ["--hp"]),
]
"""Lines behind a magic, and what Tab offers there."""


@pytest.mark.parametrize("magic", ["%%train", "%%process", "%train", "%process"])
def test_tab_offers_what_the_engine_of_the_line_has(shell_with_engines: InteractiveShell, magic: str) -> None:
    for line, expected in COMPLETED:
        assert tab(shell_with_engines, f"{magic} {line}") == expected, line


@pytest.mark.usefixtures("names")
def test_after_takes_the_names_of_jobs_behind_each_comma(shell: InteractiveShell, names: tuple[str, str]) -> None:
    assert tab(shell, "%%train --after dig") == [names[0]]
    assert tab(shell, f"%%train --after {names[0]},cen") == [names[1]]


@pytest.mark.parametrize(("magic", "other"), [("train", "--arg"), ("process", "--spot")])
def test_tab_offers_no_option_of_the_other_kind_of_job(shell: InteractiveShell, magic: str, other: str) -> None:
    found = tab(shell, f"%%{magic} --")
    assert "--keep-alive" in found
    assert other not in found


def test_tab_completes_a_line_that_a_backslash_continues(shell_with_engines: InteractiveShell) -> None:
    above = "\n%%train --engine ssh \\\n  --name x \\\n"
    for typed, expected in (("  --python to", ["torch"]), ("  --keep", ["--keep-alive"])):
        code = f"{above}{typed}"
        with provisionalcompleter():
            found = shell_with_engines.Completer.completions(f"{code}\nx = 1\n", len(code))
            assert [each.text for each in found] == expected


def test_tab_in_the_code_of_a_cell_is_that_of_python(shell: InteractiveShell) -> None:
    code = "%%train --keep-alive 10m\nimpor"
    with provisionalcompleter():
        found = shell.Completer.completions(code, len(code))
        assert "import" in [each.text for each in found]


def test_tab_on_a_cell_completes_the_first_line(shell_with_engines: InteractiveShell) -> None:
    line = "%%train --engine ssh:gpu"
    matches = shell_with_engines.Completer.complete(line_buffer=line, cursor_pos=len(line))[1]
    assert list(matches) == ["gpu-box", "gpu-2.lab.example.org"]


@pytest.mark.parametrize(("line", "expected"), [("--engine ", ["docker", "local", "ssh"]), ("-e ssh:", [*MACHINES])])
def test_names_of_python_are_left_out_where_a_kernel_completes_a_cell(
    shell_with_engines: InteractiveShell, line: str, expected: list[str]
) -> None:
    code = f"%%train {line}\nx = 1\n"
    with provisionalcompleter():
        found = shell_with_engines.Completer.completions(code, len(code) - len("\nx = 1\n"))
        assert [each.text for each in found] == expected


def test_the_default_engine_of_the_kernel_decides_where_the_line_has_none(shell_with_engines: InteractiveShell) -> None:
    shell_with_engines.run_line_magic("smx", "config engine=ssh:gpu-box")
    assert tab(shell_with_engines, "%%train --python t") == ["tf", "torch"]
    assert tab(shell_with_engines, "%%train --engine ssh --python t") == ["torch"]


def test_the_doctor_and_config_take_the_same_names(shell_with_engines: InteractiveShell) -> None:
    assert tab(shell_with_engines, "%smx doctor --engine ssh:gpu-b") == ["gpu-box"]
    assert tab(shell_with_engines, "%smx config engine=ssh:gpu-b") == ["gpu-box"]
    assert tab(shell_with_engines, "%smx config engine=d") == ["docker"]


def test_a_controller_without_the_route_leaves_the_names_that_are_installed(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    controller.engine_names = {}
    assert "ssh" in tab(shell, "%%train --engine ")
    assert set(tab(shell, "%%train -t ml.t3.")) <= set(catalogue())


def test_without_a_controller_tab_offers_installed_engines_and_starts_none(
    lonely: InteractiveShell, data_folder: Path
) -> None:
    assert {"docker", "local", "ssh"} <= set(tab(lonely, "%%train --engine "))
    assert set(tab(lonely, "%%train --engine ssh:")).isdisjoint(MACHINES), "IPython's own names stand there"
    assert "ml.t3.medium" in tab(lonely, "%%train -t ml.t3")
    assert not data_folder.exists()


def test_the_group_of_entry_points_is_that_of_the_registry() -> None:
    assert completion.ENGINE_GROUP == registry.GROUP
