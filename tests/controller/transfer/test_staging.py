from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from fake_agent import Doors, FakeAgent
from hypothesis import given
from hypothesis import strategies as st
from records import a_job, a_spec

from jupyter_smx.agent.channels.pack_outputs import pack
from jupyter_smx.agent.system.files.walk import make_folders
from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.transfer import stage_out
from jupyter_smx.controller.transfer.host_spool import HostSpool
from jupyter_smx.controller.transfer.job_folder import StagingError, atomic_write
from jupyter_smx.controller.transfer.stage_out import HostOutputs, OutputStager, merge_archives
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.spec.channel import Artifact, Output

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_smx.model.records.job import Job


def archive(members: Mapping[str, bytes | None]) -> bytes:
    """Make a tar.gz; None makes a folder."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            tar.addfile(info, io.BytesIO(content or b""))
    return whole.getvalue()


def unpacked(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        files = [(member.name, tar.extractfile(member)) for member in tar if member.isreg()]
        return {name: file.read() for name, file in files if file is not None}


def a_spool(folder: Path, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Write a job's spool folder as an agent does and give its record."""
    for name, content in files.items():
        make_folders(str((folder / "artifacts" / name).parent))
        (folder / "artifacts" / name).write_bytes(content)
    rows = [{"name": name, "path": f"artifacts/{name}", "size": len(content)} for name, content in files.items()]
    return {"artifacts": rows}


def left(folder: Path, files: Mapping[str, bytes], host: str = "algo-1") -> HostOutputs:
    spool = folder / "spool" / host
    return HostOutputs(host, a_spool(spool, files), spool=HostSpool(spool))


@pytest.fixture
def desk(tmp_path: Path) -> OutputStager:
    return OutputStager(tmp_path / "jobs")


def a_train(**fields: Any) -> Job:
    return a_job(cluster="c1", lease=1, spec=a_spec(**fields))


def test_small_variables_on_the_disk_of_the_records_are_home_without_a_turn_of_the_loop(
    desk: OutputStager, tmp_path: Path
) -> None:
    job = a_train()
    with pytest.raises(StopIteration) as done:
        desk.stage_out(job, [left(tmp_path, {"result.pkl": b"variables"})]).send(None)
    (result,) = done.value.value
    assert (result.name, result.size, desk.folder(job.id).result.read_bytes()) == ("result.pkl", 9, b"variables")


@pytest.mark.parametrize(
    "others", [{"model.tar.gz": b""}, {"result.pkl": bytes(stage_out.PIECE + 1)}], ids=["other outputs", "large"]
)
def test_outputs_that_take_longer_are_a_step_of_their_own(
    desk: OutputStager, tmp_path: Path, others: Mapping[str, bytes]
) -> None:
    small = left(tmp_path, {"result.pkl": b"variables"})
    assert desk.is_small_local_result([small])
    assert not desk.is_small_local_result([left(tmp_path, {"result.pkl": b"variables", **others})])
    assert not desk.is_small_local_result([small, left(tmp_path, {"result.pkl": b"variables"}, "algo-2")])
    assert not desk.is_small_local_result([HostOutputs("algo-1", small.record, spool=HostSpool())])
    far = OutputStager(tmp_path / "network" / "jobs")
    assert not far.is_small_local_result([small])


def test_the_event_loop_copies_no_variables(desk: OutputStager, tmp_path: Path) -> None:
    source = left(tmp_path, {"result.pkl": b"variables"})
    os.link(tmp_path / "spool" / "algo-1" / "artifacts" / "result.pkl", tmp_path / "second name")
    with pytest.raises(RuntimeError, match="no running event loop"):
        desk.stage_out(a_train(), [source]).send(None)  # to a thread


async def test_variables_with_a_second_name_are_copied(desk: OutputStager, tmp_path: Path) -> None:
    job, source = a_train(), left(tmp_path, {"result.pkl": b"variables"})
    second = tmp_path / "second name"
    os.link(tmp_path / "spool" / "algo-1" / "artifacts" / "result.pkl", second)
    await desk.stage_out(job, [source])
    home = desk.folder(job.id).result
    assert home.read_bytes() == b"variables"
    assert not home.samefile(second)


@pytest.mark.parametrize("earlier", [None, b"variables"])
async def test_variables_of_another_size_than_their_record_says_are_lost(
    desk: OutputStager, tmp_path: Path, earlier: bytes | None
) -> None:
    job, source = a_train(), left(tmp_path, {"result.pkl": b"variables"})
    home = desk.folder(job.id).result
    if earlier is not None:
        desk.folder(job.id).make()
        home.write_bytes(earlier)
    (tmp_path / "spool" / "algo-1" / "artifacts" / "result.pkl").write_bytes(b"var")
    with pytest.raises(StagingError, match="is lost"):
        await desk.stage_out(job, [source])
    assert (home.read_bytes() if home.exists() else None) == earlier


async def test_files_of_a_shared_folder_are_home_without_a_copy(desk: OutputStager, tmp_path: Path) -> None:
    job = a_train()
    model = archive({"weights": b"w" * 1000})
    source = left(tmp_path, {"model.tar.gz": model, "result.pkl": b"variables"})
    artifact, result = await desk.stage_out(job, [source])
    assert (result.name, result.path) == ("result.pkl", str(desk.folder(job.id).result))
    home = desk.folder(job.id)
    assert (artifact.name, artifact.path, artifact.size) == (
        "model.tar.gz",
        str(home.artifacts / "model.tar.gz"),
        len(model),
    )
    assert home.result.read_bytes() == b"variables"
    assert (home.artifacts / "model.tar.gz").samefile(tmp_path / "spool/algo-1/artifacts/model.tar.gz")
    assert sorted(path.name for path in home.path.iterdir()) == ["artifacts", "result.pkl"]


async def test_files_come_through_the_stream_where_no_folder_is_shared(desk: OutputStager, tmp_path: Path) -> None:
    job = a_train()
    model = os.urandom(600_000)
    agent = FakeAgent(tmp_path / "a.sock")
    agent.files[(job.id, "artifacts/model.tar.gz")] = model
    agents = Agents(lambda *_: None, lambda *_: None)
    async with agent:
        await agents.open(Doors(agent), Doors(agent).handle(), 1)
        record = {"artifacts": [{"name": "model.tar.gz", "path": "artifacts/model.tar.gz", "size": len(model)}]}
        source = HostOutputs("algo-1", record, stream=agents.stream("c1", "algo-1"))
        await desk.stage_out(job, [source])
        agents.close("c1")
        with pytest.raises(UnavailableError):
            await desk.stage_out(job, [source])
        await agents.close_all()
    assert (desk.folder(job.id).artifacts / "model.tar.gz").read_bytes() == model
    assert len([frame for frame in agent.seen if frame["op"] == "read"]) == 3


async def test_a_job_without_outputs_leaves_no_folder(desk: OutputStager) -> None:
    assert await desk.stage_out(a_train(), [HostOutputs("algo-1", {"artifacts": []}), HostOutputs("algo-2", {})]) == ()
    assert not desk.folder(a_train().id).path.exists()


async def test_archives_of_all_hosts_become_one_and_the_later_host_wins(desk: OutputStager, tmp_path: Path) -> None:
    sources = [
        left(
            tmp_path,
            {"model.tar.gz": archive({"who": host.encode(), host: b"mine"}), "result.pkl": b"v" + host[-1:].encode()},
            host,
        )
        for host in ("algo-10", "algo-2", "algo-1")
    ]
    job = a_train()
    await desk.stage_out(job, sources)
    merged = unpacked(desk.folder(job.id).artifacts / "model.tar.gz")
    assert merged == {"who": b"algo-10", "algo-1": b"mine", "algo-2": b"mine", "algo-10": b"mine"}
    assert desk.folder(job.id).result.read_bytes() == b"v1"


async def test_bringing_home_twice_gives_the_same(desk: OutputStager, tmp_path: Path) -> None:
    job = a_train()
    sources = [left(tmp_path, {"model.tar.gz": archive({"a": host.encode()})}, host) for host in ("algo-1", "algo-2")]
    first = await desk.stage_out(job, sources)
    again = await desk.stage_out(job, sources)
    assert [artifact.name for artifact in first] == [artifact.name for artifact in again]
    assert unpacked(desk.folder(job.id).artifacts / "model.tar.gz") == {"a": b"algo-2"}


@pytest.mark.parametrize(
    ("destination", "lands"),
    [("out", "out/model.tar.gz"), ("out/best.tar.gz", "out/best.tar.gz"), ("exists", "exists/model.tar.gz")],
)
async def test_a_model_goes_where_the_user_wants_it(
    desk: OutputStager, tmp_path: Path, destination: str, lands: str
) -> None:
    (tmp_path / "exists").mkdir()
    job = a_train(
        outputs=(Output(name="model", path="", destination=destination), Output(name="data", path="")),
        working_directory=str(tmp_path),
    )
    model = archive({"a": b"1"})
    artifacts = await desk.stage_out(job, [left(tmp_path, {"model.tar.gz": model, "output.tar.gz": model})])
    assert (tmp_path / lands).read_bytes() == model
    assert {artifact.name: artifact.path for artifact in artifacts} == {
        "model.tar.gz": str(tmp_path / lands),
        "output.tar.gz": str(desk.folder(job.id).artifacts / "output.tar.gz"),
    }


async def test_a_tree_of_a_processing_job_goes_to_its_folder(desk: OutputStager, tmp_path: Path) -> None:
    output = Output(name="train", path="/opt/ml/processing/train", destination=str(tmp_path / "data"))
    job = a_train(kind="process", outputs=(output, Output(name="kept", path="x")))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("stays")
    sources = [
        left(
            tmp_path,
            {f"outputs/train/{host}/x.csv": b"1", "outputs/train/all.csv": host.encode(), "outputs/kept/y": b"2"},
            host,
        )
        for host in ("algo-1", "algo-2")
    ]
    artifacts = await desk.stage_out(job, sources)
    found = {
        path.relative_to(tmp_path / "data").as_posix(): path.read_bytes()
        for path in (tmp_path / "data").rglob("*")
        if path.is_file()
    }
    assert found == {"algo-1/x.csv": b"1", "algo-2/x.csv": b"1", "all.csv": b"algo-2", "mine": b"stays"}
    assert {artifact.name for artifact in artifacts} == {
        "outputs/train/algo-1/x.csv",
        "outputs/train/algo-2/x.csv",
        "outputs/train/all.csv",
        "outputs/kept/y",
    }


async def test_a_tree_that_is_deeper_than_python_calls_itself_comes_home(deep_path: Path, desk: OutputStager) -> None:
    output = Output(name="o", path="/opt/ml/processing/o", destination=str(deep_path / "data"))
    job, name = a_train(kind="process", outputs=(output,)), "outputs/o/" + "d/" * 1100 + "x"
    [artifact] = await desk.stage_out(job, [left(deep_path, {name: b"1"})])
    assert artifact.name == name
    assert (desk.folder(job.id).artifacts / name).read_bytes() == (deep_path / "data" / name[10:]).read_bytes() == b"1"
    assert sorted(path.name for path in desk.folder(job.id).path.iterdir()) == ["artifacts"]
    desk.folder(job.id).delete()
    assert not desk.folder(job.id).path.exists()


async def test_a_destination_that_cannot_be_written_names_itself_and_keeps_the_files(
    desk: OutputStager, tmp_path: Path
) -> None:
    (tmp_path / "taken").touch()
    job = a_train(outputs=(Output(name="model", path="", destination=str(tmp_path / "taken" / "out")),))
    with pytest.raises(StagingError, match=r"taken.*cannot be written"):
        await desk.stage_out(job, [left(tmp_path, {"model.tar.gz": archive({})})])
    assert (desk.folder(job.id).artifacts / "model.tar.gz").exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", "a/../../b"])
async def test_an_agent_cannot_name_a_file_outside_the_folder(desk: OutputStager, tmp_path: Path, name: str) -> None:
    for row in ({"name": name, "path": "artifacts/x"}, {"name": "x", "path": name}):
        record = {"artifacts": [row | {"size": 1}]}
        with pytest.raises(StagingError, match="outside"):
            await desk.stage_out(a_train(), [HostOutputs("algo-1", record, spool=HostSpool(tmp_path))])


async def test_a_file_whose_name_is_no_text_comes_home_under_one_that_is(desk: OutputStager, tmp_path: Path) -> None:
    job = a_train()
    source = left(tmp_path, {os.fsdecode(b"outputs/model/caf\xe9"): b"weights"})
    home = await desk.stage_out(job, [source])
    assert [artifact.name for artifact in home] == [r"outputs/model/caf\udce9"]
    assert msgspec.json.decode(msgspec.json.encode(home), type=tuple[Artifact, ...]) == home
    assert (desk.folder(job.id).artifacts / home[0].name).read_bytes() == b"weights"


async def test_files_whose_names_are_too_long_as_text_come_home_apart(desk: OutputStager, tmp_path: Path) -> None:
    job = a_train()
    names = [os.fsdecode(b"outputs/model/" + b"\xe9" * 100 + end) for end in (b"1", b"2")]
    home = await desk.stage_out(job, [left(tmp_path, dict.fromkeys(names, b"weights"))])
    assert len({artifact.name for artifact in home}) == len(names)
    for artifact in home:
        assert artifact.name.startswith(r"outputs/model/\udce9\udce9")
        assert (desk.folder(job.id).artifacts / artifact.name).read_bytes() == b"weights"


async def test_a_file_that_is_lost_or_short_is_said(desk: OutputStager, tmp_path: Path) -> None:
    source = left(tmp_path, {"model.tar.gz": b"12345"})
    (tmp_path / "spool/algo-1/artifacts/model.tar.gz").write_bytes(b"123")
    with pytest.raises(StagingError, match="3 of 5 bytes"):
        await desk.stage_out(a_train(), [source])
    (tmp_path / "spool/algo-1/artifacts/model.tar.gz").unlink()
    with pytest.raises(StagingError, match="is lost"):
        await desk.stage_out(a_train(), [source])


async def test_a_broken_archive_is_said(desk: OutputStager, tmp_path: Path) -> None:
    sources = [left(tmp_path, {"model.tar.gz": b"no archive"}, host) for host in ("algo-1", "algo-2")]
    with pytest.raises(StagingError, match=r"model\.tar\.gz"):
        await desk.stage_out(a_train(), sources)


def is_a_tree(tree: dict[str, bytes | None]) -> bool:
    files = [name for name, content in tree.items() if content is not None]
    return not any(name.startswith(f"{file}/") for file in files for name in tree)


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
trees = st.dictionaries(names, st.one_of(st.none(), st.binary(max_size=3)), max_size=5).filter(is_a_tree)


@given(trees_of_hosts=st.lists(trees, min_size=1, max_size=3))
def test_merged_archives_unpack_and_hold_every_winner(
    tmp_path_factory: pytest.TempPathFactory, trees_of_hosts: list[dict[str, bytes | None]]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    paths = []
    for number, tree in enumerate(trees_of_hosts):
        paths.append(folder / f"{number}.tar.gz")
        paths[-1].write_bytes(archive(tree))
    merge_archives(paths, folder / "merged.tar.gz")
    files: dict[str, bytes] = {}
    with tarfile.open(folder / "merged.tar.gz") as tar:
        for member in tar:
            if member.isreg():
                assert member.name not in files
                content = tar.extractfile(member)
                assert content is not None
                files[member.name] = content.read()
    assert is_a_tree({**files}), "what was merged can be unpacked"
    last = {name: content for name, content in trees_of_hosts[-1].items() if content is not None}
    assert last.items() <= files.items()
    for name, content in files.items():
        winner = next(tree[name] for tree in reversed(trees_of_hosts) if tree.get(name) is not None)
        assert content == winner


async def test_a_record_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    assert await stage_out.read_record(HostSpool(tmp_path)) is None
    (tmp_path / "end.json").write_text('{"cause": "ex')
    assert await stage_out.read_record(HostSpool(tmp_path)) is None
    (tmp_path / "end.json").write_text("[]")
    assert await stage_out.read_record(HostSpool(tmp_path)) is None
    (tmp_path / "end.json").write_text(json.dumps({"cause": "exit"}))
    assert await stage_out.read_record(HostSpool(tmp_path)) == {"cause": "exit"}


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    with atomic_write(target) as part:
        part.write_text("first")
    with suppress(RuntimeError), atomic_write(target) as part:
        part.write_text("half")
        raise RuntimeError
    assert target.read_text() == "first"
    assert list(target.parent.iterdir()) == [target]


def test_the_cell_is_kept_as_it_ran(desk: OutputStager) -> None:
    job = a_train(source="print('ü')\n")
    desk.write_job_files(job)
    assert desk.folder(job.id).cell.read_text(encoding="utf-8") == job.spec.source
    desk.folder(job.id).delete()
    desk.folder(job.id).delete()
    assert not desk.folder(job.id).path.exists()


async def test_bringing_much_home_lets_others_run(desk: OutputStager, tmp_path: Path) -> None:
    sources = [
        left(tmp_path, {"model.tar.gz": archive({f"{n}": os.urandom(20_000) for n in range(200)})}, host)
        for host in ("algo-1", "algo-2")
    ]
    ran = 0
    bringing = asyncio.ensure_future(desk.stage_out(a_train(), sources))
    while not bringing.done():
        await asyncio.sleep(0)
        ran += 1
    assert ran > 100


LONG = "the name of more than a hundred letters, which a header of its own has, " * 2


def packed(tmp_path: Path, host: str, linked: str) -> Path:
    """Give what a host packs of a checkpoint, and of a second name of it unless that is ""."""
    folder, path = tmp_path / host, tmp_path / f"{host}.tar.gz"
    folder.mkdir()
    (folder / "checkpoint").write_text(f"of {host}")
    if linked:
        (folder / linked).hardlink_to(folder / "checkpoint")
        (folder / LONG).hardlink_to(folder / "checkpoint")
    assert pack(str(folder), str(path)) == []
    return path


def test_a_second_name_of_a_file_keeps_its_content_where_another_host_has_the_first(tmp_path: Path) -> None:
    archives = [packed(tmp_path, "algo-1", "last"), packed(tmp_path, "algo-2", "")]
    merge_archives(archives, tmp_path / "merged")
    with tarfile.open(tmp_path / "merged") as merged:
        found = {one.name: merged.extractfile(one).read() for one in merged}  # type: ignore[union-attr]
    assert found == {"checkpoint": b"of algo-2", "last": b"of algo-1", LONG: b"of algo-1"}


async def test_the_name_of_the_job_is_a_part_of_a_destination(desk: OutputStager, tmp_path: Path) -> None:
    output = Output(name="model", path="/opt/ml/model", destination=str(tmp_path / "kept" / "{job_name}"))
    job = a_train(outputs=(output,))
    (artifact,) = await desk.stage_out(job, [left(tmp_path, {"model.tar.gz": archive({"w": b"w"})})])
    assert artifact.path == str(tmp_path / "kept" / job.name / "model.tar.gz")
