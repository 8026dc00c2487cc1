"""What jobs leave on their host: an agent reads it at once, whatever a job made of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.host.spool import Spool, SpoolError, read_json
from jupyter_smx.agent.system.files.host_layout import END_RECORD, JOB_LOG, REPORT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    (tmp_path / "spool" / "job").mkdir(parents=True)
    return Spool(str(tmp_path / "spool"))


def test_a_piece_comes_with_the_size_of_the_whole(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / "spool/job/log").write_bytes(b"0123456789")
    assert spool.read("job", JOB_LOG, 2, 3) == (b"234", 10)


def test_a_pipe_to_which_nobody_writes_is_not_waited_for(spool: Spool) -> None:
    for name in (JOB_LOG, END_RECORD, "artifact"):
        os.mkfifo(spool.path("job", name))
    assert spool.record("job") is None
    with pytest.raises(SpoolError, match="cannot be read"):
        spool.read("job", "artifact", 0, 10)
    assert spool.read("job", JOB_LOG, 0, 10) == (b"", 0)


@pytest.mark.parametrize("name", ["../other/log", "out", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_jobs_folder_is_refused(spool: Spool, tmp_path: Path, name: str) -> None:
    (tmp_path / "spool/other").mkdir()
    (tmp_path / "spool/other/log").write_bytes(b"of another job")
    (tmp_path / "spool/job/out").symlink_to(tmp_path / "spool/other/log")
    with pytest.raises(SpoolError, match="is not in the job's folder"):
        spool.read("job", name, 0, 10)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", b"[]", b"{torn"])
def test_what_is_no_record_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "end.json").write_bytes(content)
    assert read_json(str(tmp_path / "end.json")) is None


@pytest.mark.parametrize(
    ("written", "sent", "newest"),
    [
        (None, None, None),
        (None, {"pid": 7}, {"pid": 7}),
        ({"pid": 8}, None, {"pid": 8}),
        ({"pid": 7, "failure": "x"}, {"pid": 7}, {"pid": 7, "failure": "x"}),
        ({"pid": 8}, {"pid": 7}, {"pid": 7}),
    ],
)
def test_the_newest_report_is_that_in_the_file_of_the_same_process(
    spool: Spool, written: dict[str, object] | None, sent: dict[str, object] | None, newest: dict[str, object] | None
) -> None:
    if written is not None:
        with open(spool.path("job", REPORT), "w", encoding="utf-8") as file:  # noqa: PTH123 - the spool's path is text
            json.dump(written, file)
    assert spool.report("job", sent) == newest
