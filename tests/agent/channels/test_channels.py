"""What a pattern puts into a channel: every file that it finds, under a name of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.channels.channel_types import ChannelError, entries, select_share

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


SEE = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
found = [os.path.join(t, n) for t, _, names in os.walk(top, followlinks=True) for n in names]
print(json.dumps({os.path.relpath(path, top): open(path).read() for path in found}))
"""


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Give a folder of days, each with a file of the same name."""
    for name in ("mon/part.csv", "tue/part.csv", "tue/deep/part.csv", "part.csv", "tue.txt"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "data"


@pytest.mark.parametrize("mode", ["File", "FastFile"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*/part.csv", ["mon/part.csv", "tue/part.csv"]),
        ("**/part.csv", ["mon/part.csv", "part.csv", "tue/deep/part.csv", "tue/part.csv"]),
        ("**", ["mon/part.csv", "part.csv", "tue.txt", "tue/deep/part.csv", "tue/part.csv"]),
        ("t*", ["tue.txt", "tue/deep/part.csv", "tue/part.csv"]),
        ("t*/", ["tue/deep/part.csv", "tue/part.csv"]),
        ("tue/d*", ["deep/part.csv"]),
        ("*/../tue/p*", ["part.csv"]),
    ],
)
def test_every_file_that_a_pattern_finds_is_in_the_channel_named_from_where_the_pattern_begins(
    agent: Agent, days: Path, mode: str, pattern: str, expected: list[str]
) -> None:
    seen = agent.json(SEE, channels=[{"name": "train", "source": f"{days}/{pattern}", "mode": mode}])
    assert sorted(seen) == expected
    top = days / "tue" if "tue/" in pattern else days
    assert {name: (top / name).read_text() for name in expected} == seen


def test_a_pattern_that_finds_only_its_own_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="is not a file, folder or pattern on this host"):
        entries({"name": "train", "source": f"{tmp_path}/**"})


def test_a_pattern_that_climbs_out_of_where_it_begins_is_refused(days: Path) -> None:
    with pytest.raises(ChannelError, match=r"/tue.txt', which is outside '.*/tue'"):
        entries({"name": "train", "source": f"{days}/tue/**/../t*.txt"})


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_what_a_controller_found_and_brought_here_is_in_the_channel_under_its_names(
    agent: Agent, days: Path, mode: str
) -> None:
    found = [["part.csv", f"{days}/mon/part.csv"], ["deep/all", f"{days}/tue"]]
    source = "/somewhere/else/*.csv"
    seen = agent.json(SEE, channels=[{"name": "train", "source": source, "mode": mode, "entries": found}])
    assert seen == {
        "part.csv": "mon/part.csv",
        "deep/all/part.csv": "tue/part.csv",
        "deep/all/deep/part.csv": "tue/deep/part.csv",
    }


@pytest.mark.parametrize("is_deep", [False, True])
def test_shares_of_a_channel_are_all_of_it_also_behind_two_links_to_one_folder(
    tmp_path: Path, *, is_deep: bool
) -> None:
    pool, train = tmp_path / "pool", tmp_path / "data" / "train"
    for folder in (pool, train / "a", train / "b"):
        folder.mkdir(parents=True)
    for name in ("1.jpg", "2.jpg"):
        (pool / name).write_text(name)
    (train / "a" / "own.jpg").write_text("")
    (train / "b" / "back").symlink_to(train)  # a loop, which ends where it began
    for name in ("a", "b"):
        (train / name / "x").symlink_to(pool)
    pairs = entries({"name": "train", "source": str(tmp_path / "data" if is_deep else train)})
    shares = [select_share(pairs, {"turn": turn, "count": 2}) for turn in range(2)]
    found = sorted(name for share in shares for name, _ in share)
    above = "train/" if is_deep else ""
    expected = [f"{above}{name}" for name in ("a/own.jpg", "a/x/1.jpg", "a/x/2.jpg", "b/x/1.jpg", "b/x/2.jpg")]
    assert set(expected) <= set(found)
    assert len(found) == len(set(found))
    assert all(name in expected or "/back/" in name for name in found)
