"""The last lines of a log: those that the whole log ends with, and no more of it is read than they need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.logs import reader
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from scripted_controller import ScriptedController

pytestmark = pytest.mark.usefixtures("shell")

LOGS = ["", "\n", "a", "a\n", "a\nb", "a\nb\n", "\n\n\n", "a\n\nb\n", "ünï\n" * 5, "10%\r20%\ndone\n", "a" * 40]


def end_of(text: str, count: int) -> str:
    return "".join(re.findall(r"[^\n]*\n|[^\n]+", text)[-count:]) if count else ""


@pytest.mark.parametrize("piece", [1, 3, 8, reader.CHUNK_SIZE])
def test_the_last_lines_are_those_that_the_whole_log_ends_with(
    controller: ScriptedController, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(reader, "CHUNK_SIZE", piece)
    job = smx.train("pass")
    for text in LOGS:
        controller.logs[job.id, "algo-1"] = text.encode()
        assert [job.logs(tail=count) for count in range(7)] == [end_of(text, count) for count in range(7)]


@pytest.mark.parametrize(
    ("attempts", "shown"),
    [
        (("first\nhalf a li", "second\n"), "first\nhalf a li\n--- attempt 2 ---\nsecond\n"),
        (("a\n", "", "b\nc"), "a\n--- attempt 2 ---\n--- attempt 3 ---\nb\nc"),
        (("", ""), "--- attempt 2 ---\n"),
    ],
)
def test_the_last_lines_go_back_into_the_attempts_before(
    controller: ScriptedController, attempts: tuple[str, ...], shown: str
) -> None:
    job = smx.train("pass", retries=2)
    controller.change(job.id, attempt=len(attempts), state=SecondaryStatus.STARTING)
    controller.run(job.id)
    for number, text in enumerate(attempts, 1):
        controller.logs[job.id, "algo-1" if number == 1 else f"attempt-{number}/algo-1"] = text.encode()
    assert job.logs() == shown
    assert [job.logs(tail=count) for count in range(8)] == [end_of(shown, count) for count in range(8)]


def test_each_of_several_hosts_has_its_own_last_lines(controller: ScriptedController) -> None:
    job = smx.train("pass", instance_count=2)
    for host in ("algo-1", "algo-2"):
        controller.write(job.id, f"begun\n{host}\n", host)
    assert job.logs(tail=1) == "==> algo-1 <==\nalgo-1\n\n==> algo-2 <==\nalgo-2\n"
    assert job.logs("algo-2", tail=1) == "algo-2\n"


def test_the_lines_of_a_card_are_the_leaders_wherever_a_group_that_helps_is_named(
    controller: ScriptedController,
) -> None:
    groups = (InstanceGroup(name="data", until="dnn"), InstanceGroup(name="dnn"))
    job = smx.train("pass", instance_groups=groups)
    for host in ("algo-1", "algo-2"):
        controller.write(job.id, f"begun\n{host}\n", host)
    assert reader.last_lines(job._client, job.record, 1) == ("algo-2",)


def test_the_end_of_a_long_log_is_found_without_its_beginning(controller: ScriptedController) -> None:
    job = smx.train("pass")
    controller.write(job.id, "0123456789abcde\n" * 500_000)
    assert job.logs(tail=3) == "0123456789abcde\n" * 3
    asked = [parse_qs(urlsplit(target).query) for target in controller.targets if "/logs" in target]
    read = [int(query["offset"][0]) for query in asked if query["limit"] != ["1"]]
    assert len(read) <= 3
    assert min(read) >= 8_000_000 - reader.CHUNK_SIZE - 1


@pytest.mark.parametrize("tail", ["many", -1, 1.5, True])
def test_what_is_no_number_of_lines_is_said(tail: int) -> None:
    with pytest.raises(ValidationError, match="is not a number of lines"):
        smx.train("pass").logs(tail=tail)


HEAD, NOTICE, TAIL = (
    b"first\nsecond\n",
    b"\n[... 1.0 MiB of this log were left out here: a limit ...]  \n",
    b"third\nlast\n",
)


def shorten(controller: ScriptedController, job_id: str, notice: bytes = NOTICE) -> None:
    gap = len(HEAD + notice), len(HEAD + notice) + 2**20
    controller.logs[job_id, "algo-1"] = HEAD + notice + bytes(2**20) + TAIL
    controller.gaps[job_id, "algo-1"] = gap


@pytest.mark.parametrize("piece", [7, 64, reader.CHUNK_SIZE])
def test_the_last_lines_go_over_what_a_limit_left_out_in_few_requests(
    controller: ScriptedController, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(reader, "CHUNK_SIZE", piece)
    job = smx.train("pass")
    shorten(controller, job.id)
    shown = (HEAD + NOTICE + TAIL).decode()
    assert job.logs() == shown
    assert [job.logs(tail=count) for count in range(8)] == [end_of(shown, count) for count in range(8)]
    assert sum("/logs" in target for target in controller.targets) < 200


def test_a_reader_that_misses_the_line_of_a_gap_gets_one(controller: ScriptedController) -> None:
    job = smx.train("pass")
    controller.write(job.id, HEAD.decode() + "third\n")
    cursor = reader.LogCursor(job._client, job.id, "algo-1")
    assert cursor.read() == "first\nsecond\nthird\n"
    shorten(controller, job.id)
    controller.gaps[job.id, "algo-1"] = (len(HEAD), len(HEAD + NOTICE) + 2**20)
    assert cursor.read() == "\n[... 1.0 MiB of this log were left out here ...]\nthird\nlast\n"
