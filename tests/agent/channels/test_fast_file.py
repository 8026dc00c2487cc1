"""FastFile on a host with a world of its own: there at once, and closed to writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.stores import digest

if TYPE_CHECKING:
    from far_side import Agent


@pytest.fixture
def isolated(shared_isolated: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_isolated


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
    record = isolated.run(SEE, channels=channel(hub))
    assert json.loads(record["text"]) == OF_HUB
    assert record["notes"] == ["channel train: a link that leads nowhere was left out: own/lost."]
    look = "import os\nprint(os.listdir(os.environ['SM_CHANNEL_TRAIN'] + '/empty'))"
    assert isolated.run(look, channels=channel(hub))["text"] == "[]\n"


def test_a_link_that_leads_nowhere_is_no_way_to_write_there(isolated: Agent, hub: Path) -> None:
    act = "import os\nopen(os.environ['SM_CHANNEL_TRAIN'] + '/own/lost', 'w')"
    assert "Read-only file system" in isolated.run(act, channels=channel(hub))["text"]
    assert not (hub.parent / "blobs" / "gone").exists()


DEEPER = {
    "below the top": {"in/own/w": "../../blobs/x"},
    "by its whole path, below the top": {"in/own/w": "TOP/blobs/x"},
    "by its whole path, into the source": {"in/abs": "TOP/in/deep/own", "in/w": "deep/own"},
    "through a folder beside it": {"in/models/m": "../../hub/snap", "hub/snap/w": "../store/x"},
    "through two folders": {"in/models/m": "../../hub/snap", "hub/snap": "TOP/hub/real", "hub/real/w": "TOP/blobs/x"},
    "from a whole folder into another one": {"in/own/up": "../b", "in/b/w": "TOP/blobs/x"},
    "back to what it lies in": {"in/own/up": "..", "in/w": "TOP/blobs/x"},
}


@pytest.mark.parametrize("kind", DEEPER)
def test_however_links_lead_out_what_is_there_is_read_and_nobody_writes_to_it(
    isolated: Agent, far_folder: Path, kind: str
) -> None:
    top = far_folder / "t"
    for name in ("blobs/x", "in/deep/own", "in/c.csv", "hub/store/x"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    for name, lead in DEEPER[kind].items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).symlink_to(lead.replace("TOP", str(top)))
    before = {path: path.read_text() for path in top.rglob("*") if path.is_file()}
    read = """
import errno, json, os
top, found, tried = os.environ["SM_CHANNEL_TRAIN"], {}, set()
def walk(folder, above):
    if os.stat(folder).st_ino in above: return
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            walk(path, above | {os.stat(folder).st_ino})
            continue
        found[os.path.relpath(path, top)] = open(path).read()
        for act in (lambda: open(path, "a"), lambda: os.chmod(path, 0o600), lambda: open(os.path.realpath(path), "a")):
            try:
                act()
                tried.add("done")
            except OSError as error:
                tried.add(errno.errorcode[error.errno])
walk(top, set())
print(json.dumps([found, sorted(tried)]))
"""
    record = isolated.run(read, channels=channel(top / "in"))
    found, tried = json.loads(record["text"])
    wanted = {one.name: one.path for one in digest.list_files(str(top / "in"))}
    assert found == {name: Path(path).read_text() for name, path in wanted.items()}
    assert (tried, record["notes"]) == (["EROFS"], [])
    assert {path: path.read_text() for path in before} == before
    [described] = record["inputs"]
    assert described["files"] == len(wanted)


@pytest.mark.parametrize("name", ["w", "own/w"])
def test_nobody_writes_by_a_link_that_comes_after_thousands_of_files(
    isolated: Agent, far_folder: Path, name: str
) -> None:
    (far_folder / "blob").write_text("blob")
    (far_folder / "in" / "own").mkdir(parents=True)
    for number in range(3_000):
        (far_folder / "in" / str(number)).touch()
    (far_folder / "in" / name).symlink_to(far_folder / "blob")
    record = isolated.run(WRITE.replace("NAME", repr(name)), channels=channel(far_folder / "in"))
    assert (json.loads(record["text"]), record["notes"]) == (CLOSED, [])
    assert (far_folder / "blob").read_text() == "blob"


@pytest.mark.parametrize("wish", ["snapshot/model.bin", "snapshot/mod*", "snapshot/o*"])
def test_a_file_or_a_pattern_that_is_a_link_is_shown_from_where_it_really_is(
    isolated: Agent, hub: Path, wish: str
) -> None:
    (hub / "own" / "lost").unlink()
    wishes = channel(hub.parent / wish)
    [name, *_more] = sorted(isolated.json(SEE, channels=wishes))
    assert isolated.json(WRITE.replace("NAME", repr(name)), channels=wishes) == CLOSED


def test_the_shares_of_such_a_source_are_the_whole(isolated: Agent, hub: Path) -> None:
    (hub / "own" / "lost").unlink()
    shares = [channel(hub, share={"turn": turn, "count": 2}) for turn in range(2)]
    seen = [isolated.json(SEE, channels=wish) for wish in shares]
    assert {name: text for one in seen for name, text in one.items()} == OF_HUB
    assert sorted(map(len, seen)) == [2, 3]
    assert isolated.json(WRITE.replace("NAME", repr(next(iter(seen[0])))), channels=shares[0]) == CLOSED


def test_links_into_many_folders_are_shown_from_one_that_has_them_all(isolated: Agent, far_folder: Path) -> None:
    (far_folder / "all").mkdir()
    for number in range(40):
        (far_folder / "apart" / str(number)).mkdir(parents=True)
        (far_folder / "apart" / str(number) / "x").write_text(str(number))
        (far_folder / "all" / str(number)).symlink_to(f"../apart/{number}/x")
    record = isolated.run(SEE, channels=channel(far_folder / "all"))
    assert json.loads(record["text"]) == {str(number): str(number) for number in range(40)}
    assert record["notes"] == []
    assert isolated.json(WRITE.replace("NAME", "'7'"), channels=channel(far_folder / "all")) == CLOSED


def test_a_link_to_the_whole_machine_is_read_and_not_protected(isolated: Agent, far_folder: Path) -> None:
    (far_folder / "in").mkdir()
    (far_folder / "in" / "machine").symlink_to("/")
    (far_folder / "in" / "x").write_text("x")
    look = "import os\ntop = os.environ['SM_CHANNEL_TRAIN']\n"
    look += "print(open(top + '/x').read(), os.listdir(top + '/machine') != [])"
    record = isolated.run(look, channels=channel(far_folder / "in"))
    assert record["text"] == "x True\n"
    [note] = record["notes"]
    assert "the job can write to" in note
    assert "to targets outside it, and more than 20000 files" in note or "lead into too many folders" in note


def test_a_channel_in_the_folder_of_another_one_is_refused_with_a_cure(isolated: Agent, hub: Path) -> None:
    (hub / "own" / "lost").unlink()
    inner = {"name": "inner", "source": str(hub / "own"), "path": "/opt/ml/processing/input/train/more/deep"}
    outer = {**channel(hub)[0], "path": "/opt/ml/processing/input/train"}
    record = isolated.run("print('never')", kind="process", channels=[outer, inner])
    assert "channel inner: " in record["failure"]
    assert "is inside another channel's read-only folder" in record["failure"]
    isolated.serves()


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
        assert (
            f"channel train: '{link}' is a link to '{tmp_path}/{name}', which does not exist on this host"
            in record["failure"]
        )
        assert "Use a relative link" in record["failure"]


def test_where_nothing_can_be_mounted_links_are_made_and_the_record_says_so(agent: Agent, source: Path) -> None:
    record = agent.run(SEE, channels=channel(source))
    assert json.loads(record["text"])["c.csv"] == "c.csv"
    (note,) = record["notes"]
    assert "the job can write to" in note
    assert "isolate is off for this host" in note


def test_what_is_in_it_is_told_although_the_job_ends_at_once(isolated: Agent, source: Path) -> None:
    (described,) = isolated.run("pass", channels=channel(source))["inputs"]
    assert (described["method"], described["files"], described["bytes"]) == ("content", 4, 32)
    assert described == isolated.run("pass", channels=channel(source, mode="File"))["inputs"][0]


def test_a_source_is_there_after_a_host_that_ended_in_a_job(own_isolated: Agent, source: Path) -> None:
    job, _lease = own_isolated.start("import signal\nprint('on', flush=True)\nsignal.pause()", channels=channel(source))
    own_isolated.wait_for_log(job, "on")
    own_isolated.process.kill()
    own_isolated.wait()
    assert (names(source)) == ["c.csv", "mon", "tue"]
    assert (source / "mon" / "a.csv").read_text() == "mon/a.csv"
    assert names(own_isolated.folder / "ml" / "input" / "data" / "train") == [], "outside there is no mount"


def test_mounts_inside_of_a_source_are_closed_as_well(isolated: Agent) -> None:
    """The folder of config files is a mount of the host's own."""
    look = (
        "import os\nfor place in (os.environ['SM_CHANNEL_TRAIN'] + '/config', '/opt/ml/input/config'):\n"
        "    print(os.path.ismount(place), bool(os.statvfs(place).f_flag & os.ST_RDONLY))"
    )
    assert isolated.run(look, channels=channel("/opt/ml/input"))["text"] == "True True\nTrue False\n"
