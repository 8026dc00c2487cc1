"""A link that leads nowhere, as the lock file of an editor, is left out of an input with a note."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import stage_in
from jupyter_smx.agent.channels.broken_links import BrokenLinkError, BrokenLinks, is_broken
from jupyter_smx.agent.channels.channel_types import ChannelCapabilities
from jupyter_smx.agent.channels.symlinks import LinkScan

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

SEE = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
found = [os.path.join(t, n) for t, _, names in os.walk(top, followlinks=True) for n in names]
print(json.dumps(sorted(os.path.relpath(path, top) for path in found)))
"""
NOTE = "channel train: 2 links that lead nowhere were left out: .#a, deep/lost."


def make_source(folder: Path) -> Path:
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (folder / name).write_text(name)
    (folder / ".#a").symlink_to("ann@laptop.123")
    (folder / "deep" / "lost").symlink_to("/not/there")
    (folder / "same").symlink_to("a")
    return folder


@pytest.mark.parametrize("host", ["agent", "isolated"])
@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_broken_links_are_left_out_of_a_folder(
    request: pytest.FixtureRequest, far_folder: Path, host: str, mode: str
) -> None:
    agent: Agent = request.getfixturevalue(host)
    source = make_source(far_folder / "data")
    record = agent.run(SEE, channels=[{"name": "train", "source": str(source), "mode": mode}])
    assert json.loads(record["text"]) == ["a", "deep/b", "same"]
    assert NOTE in record["notes"]


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_broken_links_count_in_no_share(agent: Agent, tmp_path: Path, mode: str) -> None:
    source = make_source(tmp_path / "data")
    for turn, names in ((0, ["a", "same"]), (1, ["deep/b"])):
        share = {"turn": turn, "count": 2}
        record = agent.run(SEE, channels=[{"name": "train", "source": str(source), "mode": mode, "share": share}])
        assert json.loads(record["text"]) == names
        assert NOTE in record["notes"]


def test_a_pattern_leaves_them_out_and_a_source_that_is_one_is_refused(agent: Agent, tmp_path: Path) -> None:
    source = make_source(tmp_path / "data")
    record = agent.run(SEE, channels=[{"name": "train", "source": f"{source}/*/*"}])
    assert json.loads(record["text"]) == ["deep/b"]
    assert record["notes"] == ["channel train: a link that leads nowhere was left out: lost."]
    path = str(source / "deep" / "lost")
    refused = agent.run(SEE, channels=[{"name": "train", "source": path}])
    assert f"channel train: '{path}' is a link to '/not/there', which does not exist." in refused["failure"]


def test_is_broken_follows_links_and_spares_those_into_hidden_folders(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "x").write_text("x")
    links = {"chain": "hidden", "hidden": "/hidden/x", "gone": "/hidden/gone", "loop": "loop", "well": "real/x"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    hidden = (("/hidden", str(real)),)
    broken = [name for name in links if is_broken(str(tmp_path / name), hidden)]
    assert broken == ["gone", "loop"]
    assert is_broken(str(tmp_path / "hidden"))
    assert not is_broken(str(tmp_path / "nothing")), "what is missing is no link"


def test_the_note_names_the_first_ones(tmp_path: Path) -> None:
    links = BrokenLinks()
    assert links.note("d", str(tmp_path)) == ""
    for number in range(7):
        (tmp_path / str(number)).symlink_to("gone")
    pairs: Any = [(str(number), str(tmp_path / str(number))) for number in range(7)]
    assert links.keep(pairs, "d", str(tmp_path)) == []
    note = "channel d: 7 links that lead nowhere were left out: 0, 1, 2, 3, 4 and 2 more."
    assert links.note("d", str(tmp_path)) == note
    with pytest.raises(BrokenLinkError, match="is a link to 'gone', which does not exist"):
        links.keep(pairs[:1], "d", pairs[0][1])


def test_a_name_makes_no_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a\nb").symlink_to("gone")
    links = BrokenLinks()
    assert links.is_dropped(str(tmp_path / "a\nb"))
    assert links.note("d", str(tmp_path)) == r"channel d: a link that leads nowhere was left out: 'a\nb'."


def stage(source: str, target: Path, mode: str, **fields: str) -> list[str]:
    channel: Any = {"name": "train", "source": source, "mode": mode}
    notes: list[str] = stage_in.stage([channel], {"train": str(target)}, (), 0, {}, ChannelCapabilities(**fields))[
        "notes"
    ]
    return notes


def test_a_source_is_linked_without_them_however_its_name_is_written(tmp_path: Path) -> None:
    source = make_source(tmp_path / "data")
    for number, name in enumerate((f"{source}/", f"{source}/./deep/..", f"{tmp_path}//data")):
        target = tmp_path / "in" / str(number)
        assert stage(name, target, "FastFile")[-1] == NOTE
        assert sorted(one.name for one in target.iterdir()) == ["a", "deep", "same"]


@pytest.mark.parametrize("name", ["", "/", "//", "/."])
def test_a_scan_ends_with_each_name_of_a_folder(tmp_path: Path, name: str) -> None:
    source = make_source(tmp_path / "data")
    assert LinkScan().has_outbound_links(str(source) + name)


@pytest.mark.parametrize("mode", ["File", "FastFile", "views"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_link_whose_target_cannot_be_looked_at_is_refused_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, number: int
) -> None:
    source = make_source(tmp_path / "data")
    (source / "deep" / "closed").symlink_to(tmp_path / "other")
    look = os.stat

    def fail_for_link(path: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("/closed") and options.get("follow_symlinks", True):
            raise OSError(number, os.strerror(number), str(path))
        return look(path, **options)

    monkeypatch.setattr(os, "stat", fail_for_link)
    fields = {"store": str(tmp_path / "store"), "shown": "/shown"} if mode == "views" else {}
    with pytest.raises(OSError, match="/deep/closed") as caught:
        stage(str(source), tmp_path / "in", mode.replace("views", "FastFile"), **fields)
    assert caught.value.errno == number
