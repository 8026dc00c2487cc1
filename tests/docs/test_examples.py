"""Every example of the documentation is run as a reader would run it, and prints what the page says."""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from blocks import EXECUTED, INERT, PAGES, ROOT, Block, blocks, expected, is_example
from readers import Desk, Stopwatch, Terminal, commands, same
from ssh_machine import name_machines

from jupyter_smx import controller_launch
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.docker.images import PYTHON
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

TUTORIAL = ROOT / "docs" / "users" / "tutorial.md"
IMAGES = ROOT / "docs" / "users" / "howto" / "images.md"
SSH = ROOT / "docs" / "users" / "howto" / "ssh.md"
SWEEPS = ROOT / "docs" / "users" / "howto" / "sweeps.md"
FROM_A_REGISTRY = "python:3.11-slim"
"""What a reader has from a registry, for which an image of this machine's own Python stands in here."""
TWO_MINUTES = 120.0
MOST_SKIPPED = 21
"""Two run in the test world for Slurm (``tests/engines/slurm/site``), one with an SDK (``tests/aws/clients``)."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def with_examples() -> list[Path]:
    return [page for page in PAGES if any(map(is_example, blocks(page)))]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Give a reader's desk; whatever was started on it ends with the test.

    The data folder's path is short wherever temporary files are, so that the socket lies in it.
    """
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SMX_WAIT", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    with tempfile.TemporaryDirectory(prefix="smx-reader-", dir="/tmp", ignore_cleanup_errors=True) as short:
        monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, f"{short}/data")
        provide_data_folder(Path(short, "data"))
        made = Desk(tmp_path)
        yield made
        made.close()


def follow(page: Path, desk: Desk) -> None:
    """Run the examples of a page in order."""
    of_page = blocks(page)
    for block in filter(is_example, of_page):
        if block.option("file"):
            desk.write(block)
        elif block.language == "console":
            type_in(block, desk)
        else:
            run_cell(block, expected(of_page, block), desk)


def run_cell(block: Block, wanted: str | None, desk: Desk) -> None:
    printed, raised = desk.notebook.run(block.text.replace(FROM_A_REGISTRY, PYTHON.name))
    assert raised == block.option("raises"), f"{block.where()}\n{printed}"
    assert wanted is None or same(wanted, printed), f"{block.where()} prints\n{printed}\nand not\n{wanted}"


def type_in(block: Block, desk: Desk) -> None:
    terminal = Terminal(desk.folder)
    code = int(block.option("exits") or 0)
    for command, wanted in commands(block.text):
        if wanted and command.startswith("ls "):  # a controller writes the code of a job in a moment after its end
            eventually_blocking(partial(is_listed, terminal, command, wanted), f"{block.where()}: {command}")
        printed, ended = terminal.run(command)
        assert ended == code, f"{block.where()} ended with {ended}: {command}\n{printed}"
        assert not wanted or same(wanted, printed), f"{block.where()}: {command}\nprints\n{printed}\nand not\n{wanted}"


def is_listed(terminal: Terminal, command: str, wanted: str) -> bool:
    return same(wanted, terminal.run(command)[0])


@pytest.mark.parametrize("page", with_examples(), ids=name)
def test_every_example_runs_and_prints_what_the_page_says(
    page: Path,
    request: pytest.FixtureRequest,
    record_property: pytest.RecordProperty,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if page == IMAGES:
        request.getfixturevalue("docker")
    if page == SSH:
        name_machines(request.getfixturevalue("ssh_world"), tmp_path, monkeypatch)
    desk: Desk = request.getfixturevalue("desk")
    if page == SWEEPS:
        desk.limit_hosts(1)
    watch = Stopwatch()
    follow(page, desk)
    record_property("seconds", watch.seconds())
    assert page != TUTORIAL or watch.seconds() < TWO_MINUTES / 2


def test_the_tutorial_is_among_them_and_ends_with_a_warm_pool() -> None:
    assert TUTORIAL in with_examples()
    shown = "\n".join(block.text for block in blocks(TUTORIAL) if block.language == "output")
    assert "Warm: reused pool" in shown


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]


def test_every_block_is_executed_or_says_what_it_is() -> None:
    known = (*EXECUTED, *INERT)
    odd = [
        block.where() for block in all_blocks() if not block.language.startswith("{") and block.language not in known
    ]
    assert odd == [], f"blocks are {', '.join(known)}, or a directive"


def test_few_examples_are_not_executed_and_each_says_why() -> None:
    skipped = {block.where(): block.skipped() for block in all_blocks() if "skip:" in block.info}
    assert all(len(reason.split()) > 2 for reason in skipped.values()), skipped
    assert len(skipped) <= MOST_SKIPPED, skipped


def test_what_is_not_executed_can_at_least_be_read() -> None:
    for block in all_blocks():
        if block.language == "python":
            ast.parse(block.text, block.where())
        elif block.language == "json":
            json.loads(block.text)


def test_no_line_of_prose_is_taken_for_a_comment() -> None:
    """A line that begins with a percent sign would not be shown."""
    for page in PAGES:
        inside = [
            number for block in blocks(page) for number in range(block.line, block.line + block.text.count("\n") + 3)
        ]
        lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        assert [number for number, line in lines if line.startswith("%") and number not in inside] == [], page


def test_an_output_that_is_shown_belongs_to_a_cell() -> None:
    for page in PAGES:
        found = blocks(page)
        stray = [
            block.where()
            for before, block in zip([None, *found], found, strict=False)
            if block.language == "output" and (before is None or before.language not in ("ipython", "python"))
        ]
        assert stray == []


def test_a_comparison_sees_a_lie_and_forgives_what_varies() -> None:
    assert same("train-0a1b2c  Completed  cold 732 ms", "train-ffffff   Completed  cold 1 min 3 s\n")
    assert same("a\n...\nz", "a\nb\nc\nz")
    assert same("a.\n...\nz\n...", "a.\nz")
    assert same("a [...] b", "a [x\ny] b")
    assert not same("a\n...\nz", "a\nb")
    assert not same("train-0a1b2c  Completed", "train-0a1b2c  Failed")
    assert not same("accuracy 0.93", "accuracy 0.39")
    assert not same("", "anything")


def test_a_console_block_is_read_command_by_command() -> None:
    assert commands("$ a \\\n  b\nx\ny\n$ c") == [("a \\\n  b", "x\ny"), ("c", "")]
