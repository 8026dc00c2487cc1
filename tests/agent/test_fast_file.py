"""FastFile on a host with a world of its own: there at once, and closed to writing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

SEE = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
found = [os.path.join(t, n) for t, _, names in os.walk(top, followlinks=True) for n in names]
print(json.dumps({os.path.relpath(path, top): open(path).read() for path in found}))
"""
WRITE = """
import errno, json, os
top = os.environ["SM_CHANNEL_TRAIN"]
def refused(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
name = os.path.join(top, NAME)
print(json.dumps([
    refused(lambda: open(name, "a")), refused(lambda: open(top + "/new", "w")), refused(lambda: os.unlink(name)),
    refused(lambda: os.chmod(name, 0o600)), refused(lambda: open(os.path.realpath(name), "a")),
]))
"""
CLOSED = ["EROFS"] * 5


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in ("mon/a.csv", "mon/b.csv", "tue/a.csv", "c.csv"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "data"


def channel(source: Path | str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "train", "source": str(source), "mode": "FastFile", **fields}]


@pytest.mark.parametrize(
    ("wish", "name", "share"),
    [
        ("", "c.csv", None),
        ("/c.csv", "c.csv", None),
        ("/*/a.csv", "mon/a.csv", None),
        ("", "mon/b.csv", {"turn": 2, "count": 4}),
    ],
    ids=["folder", "file", "pattern", "share"],
)
def test_nobody_writes_to_a_source(isolated: Agent, source: Path, wish: str, name: str, share: Any) -> None:
    wishes = channel(f"{source}{wish}", **({"share": share} if share else {}))
    assert isolated.json(WRITE.replace("NAME", repr(name)), channels=wishes) == CLOSED
    assert isolated.json(SEE, channels=wishes)[name] == str(next(source.rglob(name)).read_text())
    assert (source / "c.csv").read_text() == "c.csv"
    isolated.serves()


def test_it_is_the_source_itself_and_no_copy(isolated: Agent, source: Path) -> None:
    look = "import json, os; print(json.dumps(os.stat(os.environ['SM_CHANNEL_TRAIN'] + '/c.csv').st_ino))"
    assert isolated.json(look, channels=channel(source)) == (source / "c.csv").stat().st_ino
    assert not list((isolated.folder / "inputs").rglob("*.csv"))


def test_the_shares_of_all_hosts_are_the_whole(isolated: Agent, source: Path) -> None:
    seen = [isolated.json(SEE, channels=channel(source, share={"turn": turn, "count": 3})) for turn in range(3)]
    assert sorted(name for one in seen for name in one) == ["c.csv", "mon/a.csv", "mon/b.csv", "tue/a.csv"]
    assert sorted(map(len, seen)) == [1, 1, 2]


def test_a_share_of_nothing_is_an_empty_folder(isolated: Agent, source: Path) -> None:
    assert isolated.json(SEE, channels=channel(source, share={"turn": 5, "count": 6})) == {}


@pytest.fixture
def hub(far_folder: Path) -> Path:
    """Make what a model hub keeps: a snapshot of links to files beside it, and what people add to such a folder."""
    top = far_folder / "hub"
    for name in ("blobs/x", "blobs/y", "more/deep/z", "snapshot/own/w"):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    links = {"model.bin": "../blobs/x", "own/y": "../../blobs/y", "more": "../more", "same": "own/w"}
    for name, lead in links.items():
        (top / "snapshot" / name).symlink_to(lead)
    (top / "snapshot" / "own" / "lost").symlink_to("../../blobs/gone")
    (top / "snapshot" / "empty").mkdir()
    return top / "snapshot"


OF_HUB = {
    "model.bin": "blobs/x",
    "own/y": "blobs/y",
    "own/w": "snapshot/own/w",
    "same": "snapshot/own/w",
    "more/deep/z": "more/deep/z",
}


@pytest.mark.parametrize("name", ["model.bin", "own/y", "own/w", "same", "more/deep/z"])
def test_nobody_writes_to_what_links_lead_to_that_lead_out_of_a_source(isolated: Agent, hub: Path, name: str) -> None:
    assert isolated.json(WRITE.replace("NAME", repr(name)), channels=channel(hub)) == CLOSED
    assert (hub / name).read_text() == OF_HUB[name]
    isolated.serves()


def test_a_source_whose_links_lead_out_of_it_is_there_as_it_is(isolated: Agent, hub: Path) -> None:
    look = SEE.replace("found = [", "found = [path for path in [").replace(
        "for n in names]", "for n in names] if os.path.exists(path)]"
    )
    record = isolated.run(look, channels=channel(hub))
    assert json.loads(record["text"]) == OF_HUB
    assert record["notes"] == []
    more = "import os\ntop = os.environ['SM_CHANNEL_TRAIN']\n"
    more += "print(os.listdir(top + '/empty'), os.readlink(top + '/own/lost'))"
    assert isolated.run(more, channels=channel(hub))["text"] == f"[] {hub.parent}/blobs/gone\n"


def test_the_shares_of_such_a_source_are_the_whole(isolated: Agent, hub: Path) -> None:
    (hub / "own" / "lost").unlink()
    shares = [channel(hub, share={"turn": turn, "count": 2}) for turn in range(2)]
    seen = [isolated.json(SEE, channels=wish) for wish in shares]
    assert {name: text for one in seen for name, text in one.items()} == OF_HUB
    assert sorted(map(len, seen)) == [2, 3]
    assert isolated.json(WRITE.replace("NAME", repr(next(iter(seen[0])))), channels=shares[0]) == CLOSED


@pytest.mark.parametrize("count", [32, 33])
def test_links_into_more_folders_than_can_be_shown_are_read_and_not_protected(
    isolated: Agent, far_folder: Path, count: int
) -> None:
    (far_folder / "all").mkdir()
    for number in range(count):
        (far_folder / str(number)).mkdir()
        (far_folder / str(number) / "x").write_text(str(number))
        (far_folder / "all" / str(number)).symlink_to(f"../{number}/x")
    record = isolated.run(SEE, channels=channel(far_folder / "all"))
    assert json.loads(record["text"]) == {str(number): str(number) for number in range(count)}
    told = "FastFile is made of links here, so nothing keeps the job from writing to"
    assert [told in note and "too many folders" in note for note in record["notes"]] == [True] * (count > 32)


def test_such_a_source_in_a_folder_that_jobs_cannot_see_is_copied(isolated: Agent, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("model")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "model.bin").symlink_to("../x")
    assert isolated.json(SEE, channels=channel(tmp_path / "snapshot")) == {"model.bin": "model"}


@pytest.mark.parametrize("mode", ["File", "FastFile"])
@pytest.mark.parametrize("name", ["x", "snapshot/x"], ids=["beside it", "in it"])
def test_a_link_by_its_whole_path_into_such_a_folder_is_named_with_a_cure(
    isolated: Agent, tmp_path: Path, mode: str, name: str
) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / name).write_text("model")
    link = tmp_path / "snapshot" / "model.bin"
    link.symlink_to(tmp_path / name)
    record = isolated.run(SEE, channels=channel(tmp_path / "snapshot", mode=mode))
    if isolated.json(f"import os, json; print(json.dumps(os.path.exists({str(tmp_path)!r})))"):
        assert record["exit_code"] == 0  # this machine's Python lies in /tmp, or what is /tmp here, so it is not hidden
    else:
        assert f"channel train: '{link}' is a link to '{tmp_path}/{name}', which is not found" in record["failure"]
        assert "Make the link a relative one" in record["failure"]


def test_where_nothing_can_be_mounted_links_are_made_and_the_record_says_so(agent: Agent, source: Path) -> None:
    record = agent.run(SEE, channels=channel(source))
    assert json.loads(record["text"])["c.csv"] == "c.csv"
    (note,) = record["notes"]
    assert "nothing keeps the job from writing to" in note
    assert "isolate is off for this host" in note


def test_what_is_in_it_is_told_although_the_job_ends_at_once(isolated: Agent, source: Path) -> None:
    (described,) = isolated.run("pass", channels=channel(source))["inputs"]
    assert (described["method"], described["files"], described["bytes"]) == ("content", 4, 32)
    assert described == isolated.run("pass", channels=channel(source, mode="File"))["inputs"][0]


def test_a_source_is_there_after_a_host_that_ended_in_a_job(isolated: Agent, source: Path) -> None:
    job, _lease = isolated.start("import signal\nprint('on', flush=True)\nsignal.pause()", channels=channel(source))
    isolated.wait_for_log(job, "on")
    isolated.process.kill()
    isolated.wait()
    assert (names(source)) == ["c.csv", "mon", "tue"]
    assert (source / "mon" / "a.csv").read_text() == "mon/a.csv"
    assert names(isolated.folder / "ml" / "input" / "data" / "train") == [], "outside there is no mount"


def test_mounts_inside_of_a_source_are_closed_as_well(isolated: Agent) -> None:
    """The folder of config files is a mount of the host's own."""
    look = (
        "import os\nfor place in (os.environ['SM_CHANNEL_TRAIN'] + '/config', '/opt/ml/input/config'):\n"
        "    print(os.path.ismount(place), bool(os.statvfs(place).f_flag & os.ST_RDONLY))"
    )
    assert isolated.run(look, channels=channel("/opt/ml/input"))["text"] == "True True\nTrue False\n"
