"""What ``--plan`` lists of the files that hosts of another machine would be sent."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from records import a_spec

from jupyter_smx.controller.transfer.planned_files import list_planned_files
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.results.reports import PlannedFiles
from jupyter_smx.model.spec.channel import Channel, Payload
from jupyter_smx.model.spec.job_spec import SourceDir

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Give a folder with three files of 10 bytes, one of them below, and a link to it."""
    folder = tmp_path / "data"
    (folder / "inner").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "inner/c.csv"):
        (folder / name).write_bytes(b"x" * 10)
    (tmp_path / "link").symlink_to(folder)
    return folder


def test_variables_the_folder_and_channels_have_their_sizes(data: Path) -> None:
    spec = a_spec(
        send=Payload(path="/data/payloads/1.pkl", sha256="1", sizes={"x": 3, "y": 4}, size=90),
        source_dir=SourceDir(folder="/home/me/src", path="/data/payloads/2.tar.gz", sha256="2", files=12, size=345),
        channels=(
            Channel(name="training", source=str(data)),
            Channel(name="linked", source=str(data.parent / "link")),
            Channel(name="few", source=f"{data}/*.csv"),
            Channel(name="far", source="s3://bucket/prefix"),
        ),
    )
    assert list_planned_files(spec) == (
        PlannedFiles(kind="variables", name="x, y", files=1, size=90),
        PlannedFiles(kind="source folder", name="/home/me/src", files=12, size=345),
        PlannedFiles(kind="channel training", name=str(data), files=3, size=30),
        PlannedFiles(kind="channel linked", name=str(data.parent / "link"), files=3, size=30),
        PlannedFiles(kind="channel few", name=f"{data}/*.csv", files=2, size=20),
    )


def test_what_the_machines_see_is_left_out(data: Path) -> None:
    payload = Payload(path=f"{data}/1.pkl", sha256="1", sizes={"x": 3}, size=90)
    spec = a_spec(send=payload, channels=(Channel(name="training", source=str(data)),))
    assert list_planned_files(spec, (str(data),)) == ()
    assert [one.kind for one in list_planned_files(spec, (str(data / "inner"),))] == ["variables", "channel training"]


def test_counting_ends_in_time_and_says_so(data: Path) -> None:
    spec = a_spec(channels=(Channel(name="training", source=str(data)),))
    ticks = count(0.0, 1.5)
    (found,) = list_planned_files(spec, clock=lambda: next(ticks))
    assert (found.files, found.size, found.is_partial) == (2, 20, True)


def test_a_source_that_is_not_there_is_refused(data: Path) -> None:
    spec = a_spec(channels=(Channel(name="training", source=f"{data}/*.json"),))
    with pytest.raises(ValidationError, match="is not a file, folder or pattern"):
        list_planned_files(spec)
