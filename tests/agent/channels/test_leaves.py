"""Links that lead out of a channel's folder: all their targets are in the channel, and no link leads past it."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.agent.channels import fastfile, link_targets, symlinks
from jupyter_smx.agent.channels.channel_types import ChannelCapabilities, StageResult
from jupyter_smx.agent.system.files.walk import descend, raise_unless_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = ["in", "in/a", "in/a/b", "in/c", "out", "out/d", "out/d/e", "far"]
LINKS = st.lists(
    st.tuples(
        st.sampled_from(FOLDERS), st.sampled_from([*FOLDERS, "FILE", "LOST"]), st.sampled_from(FOLDERS), st.booleans()
    ),
    max_size=7,
)


def built(top: Path, wishes: list[tuple[str, str, str, bool]]) -> Path:
    """Make folders with a file each, and links of each kind between them; return the channel's source folder."""
    for name in FOLDERS:
        (top / name).mkdir(parents=True, exist_ok=True)
        (top / name / "own.csv").write_text(name)
    for number, (where, what, other, is_whole) in enumerate(wishes):
        lead = {"FILE": f"{other}/own.csv", "LOST": f"{other}/nothing"}.get(what, what)
        target = top / lead if is_whole else Path(os.path.relpath(top / lead, top / where))
        (top / where / f"link{number}").symlink_to(target)
    return top / "in"


def pairs_of(source: Path) -> list[tuple[str, str]]:
    return [(path.name, str(path)) for path in sorted(source.iterdir())]


def readable(folder: Path) -> dict[str, str]:
    """Return the texts of all files that can be read by following links, by their paths."""

    def there() -> Iterator[tuple[str, str]]:
        for level in descend(str(folder), follow=True, on_error=raise_unless_loop):
            for entry in level.files:
                if os.path.exists(entry.path):  # noqa: PTH110 - as text, which the walk gives
                    yield level.inner(entry), Path(entry.path).read_text()

    return dict(there())


def ways_out(folder: Path) -> list[Path]:
    """Return the links in a folder that lead out of it, or that have an absolute target, which a host cannot follow."""
    inside = (path for path in folder.rglob("*") if path.is_symlink())
    return [path for path in inside if path.readlink().is_absolute() or folder not in path.resolve().parents]


@given(wishes=LINKS)
@settings(max_examples=300)
def test_all_that_can_be_read_is_there_and_no_link_of_it_leads_past_what_shows_it(
    wishes: list[tuple[str, str, str, bool]],
) -> None:
    with TemporaryDirectory() as place:
        top = Path(os.path.realpath(place))
        source = built(top, wishes)
        found = link_targets.resolve_links(pairs_of(source), str(source))
        shown_from = link_targets.view_folders(found.shown, str(source))
        channel = top / "channel"
        for name in ["", *found.folders]:
            (channel / name).mkdir(parents=True, exist_ok=True)
        for name, path in found.shown:
            (channel / name).symlink_to(path)
            if os.path.exists(path):  # noqa: PTH110 - as text
                assert (path + os.sep).startswith(shown_from[path] + os.sep)
                assert not os.path.islink(path), "nobody is led on by another link"  # noqa: PTH114 - as text
                assert ways_out(Path(path)) == []
        for name, outer in found.loops:
            (channel / name).symlink_to(channel / outer)
        assert readable(channel) == readable(source)


@pytest.mark.parametrize(("count", "homes"), [(32, 32), (33, 1)])
def test_files_of_many_folders_are_shown_from_larger_ones(tmp_path: Path, count: int, homes: int) -> None:
    shown = []
    for number in range(count):
        (tmp_path / "apart" / str(number)).mkdir(parents=True)
        (tmp_path / "apart" / str(number) / "x").touch()
        shown.append((str(number), str(tmp_path / "apart" / str(number) / "x")))
    found = link_targets.view_folders(shown, str(tmp_path / "own"))
    assert len(set(found.values())) == homes
    assert all(path.startswith(home + os.sep) for path, home in found.items())


def test_a_folder_within_another_one_is_shown_from_that(tmp_path: Path) -> None:
    for name in ("a/x", "a/b/c/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = link_targets.view_folders(
        [("x", str(tmp_path / "a" / "x")), ("y", str(tmp_path / "a" / "b" / "c" / "y"))], ""
    )
    assert set(found.values()) == {str(tmp_path / "a")}


def test_who_would_get_too_many_links_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_targets, "_MAX_FILES", 10)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "out").symlink_to("/")
    for number in range(9):
        (tmp_path / "in" / "deep" / str(number)).touch()
    with pytest.raises(link_targets.TooManyTargetsError, match="more than 10 files"):
        link_targets.resolve_links([("deep", str(tmp_path / "in" / "deep"))])
    flat = [(str(number), str(tmp_path / "in" / "deep" / "3")) for number in range(40)]
    assert len(link_targets.resolve_links(flat).shown) == 40, "what a share names is its own"


def test_a_file_at_the_top_of_the_machine_would_be_shown_from_all_of_it() -> None:
    with pytest.raises(link_targets.TooManyTargetsError, match="too many folders"):
        link_targets.view_folders([("etc", "/")], "")


@pytest.mark.parametrize(("looked_at", "found"), [(5, True), (3, False)])
def test_of_a_large_folder_the_first_links_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: int, found: bool
) -> None:
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "link").symlink_to("..")
    monkeypatch.setattr(symlinks, "_MAX_ENTRIES", looked_at)
    ways = symlinks.LinkScan()
    assert ways.has_outbound_links(str(tmp_path)) == symlinks.has_outbound_links(str(tmp_path)) == found
    assert ways.is_sure == found, "nobody takes a folder for one without such links that was not looked at to its end"


@pytest.mark.parametrize(("lead", "found"), [("l/../../x", True), ("l/../d/e/y", False), ("l/y", False)])
def test_a_link_may_lead_through_another_one_and_up_again(tmp_path: Path, lead: str, found: bool) -> None:
    for name in ("x", "in/d/e/y", "in/s/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "in" / "d" / "e" / "l").symlink_to("../../s")
    (tmp_path / "in" / "d" / "e" / "link").symlink_to(lead)
    assert symlinks.has_outbound_links(str(tmp_path / "in")) == found
    assert symlinks.has_outbound_links(str(tmp_path / "in" / "d"))


def test_a_folder_that_was_not_reached_from_a_large_one_is_looked_at_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        (tmp_path / "many" / str(number)).mkdir(parents=True)
    (tmp_path / "some" / "deep").mkdir(parents=True)
    (tmp_path / "some" / "deep" / "w").symlink_to("/")
    monkeypatch.setattr(symlinks, "_MAX_ENTRIES", 5)
    ways = symlinks.LinkScan()
    assert not ways.has_outbound_links(str(tmp_path))
    assert not ways.is_sure
    assert ways.has_outbound_links(str(tmp_path / "some"))
    monkeypatch.setattr(symlinks, "_MAX_ENTRIES_PER_CHANNEL", 10)
    ways = symlinks.LinkScan()
    assert [ways.has_outbound_links(str(tmp_path / name)) for name in ("", "many", "some")] == [False] * 3


def test_a_slow_disk_is_looked_at_for_a_moment_only_and_not_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0/1/2/3/4/5/6/7").mkdir(parents=True)
    monkeypatch.setattr(symlinks, "_MIN_STEPS", 2)
    looks: list[str] = []
    real = symlinks._sample_folder
    monkeypatch.setattr(symlinks, "_sample_folder", lambda folder, most: (looks.append(folder), real(folder, most))[1])
    ways = symlinks.LinkScan(lambda: len(looks) * symlinks._SECONDS * 0.3)
    assert [ways.has_outbound_links(str(tmp_path)), ways.is_sure, len(looks)] == [False, False, 4]
    assert [ways.has_outbound_links(str(tmp_path)), len(looks)] == [False, 4]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("way_out", ["", "at the top"])
def test_a_channel_of_which_not_all_is_looked_at_is_closed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool, way_out: str
) -> None:
    for name in ("in/deep/a", "in/deep/b", "in/deep/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    if way_out:
        (tmp_path / "out").touch()
        (tmp_path / "in" / "link").symlink_to("../out")
    monkeypatch.setattr(symlinks, "_MAX_ENTRIES", 2 if is_large else 10)
    staged = StageResult(0, {})
    wish = {"name": "train", "source": str(tmp_path / "in")}
    fastfile.present_views(
        staged, wish, str(tmp_path / "train"), ChannelCapabilities(str(tmp_path / "store"), "/shown")
    )
    assert staged.mounts, "as ever"
    assert all(mount["how"] == "show" for mount in staged.mounts)
    if is_large:
        [note] = staged.notes
        assert note.startswith(
            f"channel train: {tmp_path}/in has so many files, or is on so slow a disk, that links were"
        )
    else:
        assert staged.notes == []
