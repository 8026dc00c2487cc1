"""A folder of checkpoints that a script moves about: what a look did not see for a moment is not lost."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels.checkpoint import FolderStore, Mirror
from jupyter_smx.agent.job import mirror_task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG_AGO = 1_000.0
NOW = 2 * LONG_AGO


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    os.utime(folder / name, (LONG_AGO, LONG_AGO))


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "user" / "kept"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write(tmp_path / "checkpoints", "last/model.pt", "1")
    write(tmp_path / "checkpoints", "state", "1")
    return tmp_path / "checkpoints"


@pytest.fixture
def mirror(here: Path, there: Path) -> Mirror:
    made = Mirror(str(here), FolderStore(str(there), "algo-1"))
    made.sync(NOW)
    assert files(there) == {"last/model.pt": "1", "state": "1"}
    return made


def test_a_folder_that_is_away_for_a_moment_was_not_emptied(mirror: Mirror, here: Path, there: Path) -> None:
    here.rename(here.parent / "before")
    mirror.sync(NOW)
    assert files(there) == {"last/model.pt": "1", "state": "1"}
    write(here.parent / "next", "last/model.pt", "1+1")
    (here.parent / "next").rename(here)
    mirror.sync(NOW)
    assert files(there) == {"last/model.pt": "1+1"}
    assert mirror.errors == {}


@pytest.mark.parametrize("left", ["nothing", "a file", "a link that leads nowhere"])
def test_what_a_job_saved_stays_where_it_leaves_no_folder_at_its_end(
    mirror: Mirror, here: Path, there: Path, left: str
) -> None:
    shutil.rmtree(here)
    if left == "a file":
        here.write_text("")
    elif left != "nothing":
        here.symlink_to("nowhere")
    assert mirror_task.sync_final(mirror) == {"errors": [], "notes": []}
    assert files(there) == {"last/model.pt": "1", "state": "1"}


def test_what_a_job_deleted_before_its_end_goes_as_ever(mirror: Mirror, here: Path, there: Path) -> None:
    shutil.rmtree(here / "last")
    (here / "state").unlink()
    mirror_task.sync_final(mirror)
    assert files(there) == {}


@pytest.fixture
def meanwhile(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Give what lets a script act when a look has listed the folder, and not yet what is in it."""

    def set_up(act: Callable[[], Any]) -> None:
        real, acts = os.scandir, [act]

        def scandir(path: str) -> Any:
            if str(path) == str(here / "last") and acts:
                acts.pop()()
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return set_up


def test_a_folder_that_takes_the_place_of_one_that_is_looked_at_has_not_lost_its_files(
    mirror: Mirror, here: Path, there: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    def swap() -> None:
        here.rename(here.parent / "before")
        write(here.parent / "next", "last/other.pt", "2")
        write(here.parent / "next", "state", "2+")
        (here.parent / "next").rename(here)

    meanwhile(swap)
    mirror.sync(NOW)
    assert files(there)["last/model.pt"] == "1", "it may lie where the look did not come"
    mirror.sync(NOW)
    assert files(there) == {"last/other.pt": "2", "state": "2+"}


def test_a_folder_that_gets_another_name_while_it_is_looked_for_has_not_lost_its_files(
    mirror: Mirror, here: Path, there: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    meanwhile(lambda: (here / "last").rename(here / "before"))
    mirror.sync(NOW)
    assert files(there) == {"last/model.pt": "1", "state": "1"}
    mirror.sync(NOW)
    assert files(there) == {"before/model.pt": "1", "state": "1"}
