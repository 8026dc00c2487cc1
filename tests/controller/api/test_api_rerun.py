"""A job that runs once more over the API, and a job whose end everybody hears of."""

from __future__ import annotations

import errno
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from records import a_job, a_spec, an_id
from serving import World, served

from jupyter_smx.controller.transfer.unused_payloads import UNUSED_AGE, delete_unused_payloads
from jupyter_smx.model.spec.array import ArrayTask
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        yield world


def finished(number: int = 1, **wish: Any) -> Any:
    spec = replace(a_spec(engine="fake"), python="/py", base_name="digits", hyperparameters={"lr": "0.1"})
    return a_job(number, state=SecondaryStatus.FAILED, ended_at=2.0, spec=replace(spec, **wish))


async def again(world: World, number: int = 1, new: int = 7, **fields: Any) -> Any:
    return await world.ask("POST", f"/v1/jobs/{an_id(number)}/rerun", {"id": an_id(new)} | fields)


def packed(path: Path) -> Payload:
    path.write_bytes(b"x")
    return Payload(path=str(path), sha256="0" * 64, sizes={"cfg": 1}, size=1)


async def test_a_job_runs_again_with_the_same_wish_however_often_that_is_sent(world: World) -> None:
    task = ArrayTask(id=an_id(3), name="digits-a", index=2, size=4)
    first = finished(array=task, checkpoint="sftp://me:hunter2@host/kept")
    world.books.save(jobs=[first])
    made = await again(world, submitted_at=5.0)
    assert (made.status, made.json()["id"]) == (201, an_id(7))
    new = world.books.job(an_id(7))
    assert new.spec == replace(first.spec, submitted_at=5.0, array=None)
    assert made.json()["spec"]["checkpoint"] == first.spec.checkpoint, "kernels hand it in again"
    assert new.timings["magic"] == 5.0
    assert (await again(world, submitted_at=5.0)).status == 200
    assert (await again(world, new=8)).status == 201


async def test_an_id_that_belongs_to_another_wish_is_refused(world: World) -> None:
    world.books.save(jobs=[finished()])
    await world.submit(7)
    refused = await again(world)
    assert (refused.status, refused.json()["code"]) == (409, "ResourceInUse")


@pytest.mark.parametrize("field", ["send", "shared"])
async def test_variables_that_are_gone_are_said_and_nothing_is_made(world: World, tmp_path: Path, field: str) -> None:
    payload = packed(tmp_path / "cfg.pkl")
    world.books.save(jobs=[finished(**{field: payload})])
    assert (await again(world)).status == 201
    (tmp_path / "cfg.pkl").unlink()
    refused = await again(world, new=8)
    assert (refused.status, refused.json()["field"]) == (404, "send")
    assert "cannot run again: its sent variables were deleted." in refused.json()["message"]
    assert refused.json()["cure"] == "Run its cell again."
    assert (await world.ask("GET", f"/v1/jobs/{an_id(8)}")).status == 404


async def test_a_folder_of_code_comes_back_from_the_files_of_the_job(world: World, tmp_path: Path) -> None:
    path = tmp_path / "payloads" / "tree.tar.gz"
    source = SourceDir(path=str(path), sha256="0" * 64, folder="/home/me/src", files=1, size=1)
    job = finished(source_dir=source, entry_point="train.py")
    world.books.save(jobs=[job])
    refused = await again(world)
    assert (refused.status, refused.json()["field"]) == (404, "source_dir")
    assert refused.json()["cure"] == "Submit the job again from /home/me/src."
    kept = tmp_path / "jobs" / job.id / "source.tar.gz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"tree")
    assert (await again(world)).status == 201
    assert path.read_bytes() == b"tree"


def with_code(world: World, path: Path) -> Path:
    """Write a job down whose folder of code lies with its files only; give that file."""
    source = SourceDir(path=str(path), sha256="0" * 64, folder="/home/me/src", files=1, size=1)
    world.books.save(jobs=[finished(source_dir=source, entry_point="train.py")])
    kept = world.folder / "jobs" / an_id(1) / "source.tar.gz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"tree")
    return kept


def refuses(number: int) -> Any:
    def link(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return link


async def test_a_folder_of_code_comes_back_to_another_disk_as_a_copy(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "payloads" / "tree.tar.gz"
    kept = with_code(world, path)
    monkeypatch.setattr(os, "link", refuses(errno.EXDEV))
    assert (await again(world)).status == 201
    assert path.read_bytes() == b"tree"
    assert not path.samefile(kept)
    assert [found.name for found in path.parent.iterdir()] == ["tree.tar.gz"]


async def test_two_that_bring_a_folder_of_code_back_at_once_do_not_disturb_each_other(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "payloads" / "tree.tar.gz"
    with_code(world, path)
    link = os.link

    def later(source: Path, target: Path) -> None:
        target.write_bytes(b"tree of the other one")
        link(source, target)

    monkeypatch.setattr(os, "link", later)
    assert (await again(world)).status == 201
    assert path.read_bytes() == b"tree of the other one"


async def test_a_disk_that_does_not_take_the_folder_of_code_is_said_and_leaves_no_half_of_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "payloads" / "tree.tar.gz"
    with_code(world, path)
    monkeypatch.setattr(os, "link", refuses(errno.EXDEV))
    monkeypatch.setattr(shutil, "copyfile", refuses(errno.ENOSPC))
    refused = await again(world)
    assert (refused.status, refused.json()["field"], refused.json()["transient"]) == (503, "source_dir", True)
    assert "No space left" in refused.json()["message"]
    assert [*path.parent.iterdir()] == []
    assert an_id(7) not in world.books.jobs


async def test_a_folder_of_code_that_is_deleted_while_it_comes_back_is_said(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "payloads" / "tree.tar.gz"
    with_code(world, path)

    def delete_first(source: Path, target: Path) -> None:
        source.unlink()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)

    monkeypatch.setattr(os, "link", delete_first)
    refused = await again(world)
    assert (refused.status, refused.json()["field"]) == (404, "source_dir")
    assert "cannot run again: its --source-dir folder was deleted." in refused.json()["message"]
    assert refused.json()["cure"] == "Submit the job again from /home/me/src."
    assert [*path.parent.iterdir()] == []


async def test_a_job_that_waits_to_run_again_keeps_its_code_where_the_first_one_is_deleted(
    world: World, tmp_path: Path
) -> None:
    path = tmp_path / "payloads" / "tree.tar.gz"
    kept = with_code(world, path)
    assert (await again(world)).status == 201
    assert (await world.ask("DELETE", f"/v1/jobs/{an_id(1)}")).status == 204
    assert not kept.exists()
    needed = [payload for job in world.books.jobs.values() for payload in job.spec.payloads()]
    delete_unused_payloads(path.parent, needed, time.time() + 2 * UNUSED_AGE)
    assert path.read_bytes() == b"tree"
    refused = await again(world, new=8)
    assert (refused.status, refused.json()["code"]) == (404, "ResourceNotFound")
    assert "there is no job" in refused.json()["message"].lower()


async def test_that_a_job_was_deleted_is_a_change(world: World) -> None:
    world.books.save(jobs=[finished()])
    seen = (await world.ask("GET", "/v1/changes?since=0")).json()["seq"]
    await world.ask("DELETE", f"/v1/jobs/{an_id(1)}")
    changes = (await world.ask("GET", f"/v1/changes?since={seen}&wait=20")).json()
    assert [event["deleted"] for event in changes["events"]] == [an_id(1)]
    assert changes["seq"] == seen + 1
