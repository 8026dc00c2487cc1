"""What is installed in a folder: found wherever Python finds it, and looked for only where it can be."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent import packages
from jupyter_smx.agent.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
HEAD = "Metadata-Version: 2.1\nName: Thing\nVersion: 1.5\n\n"


def in_a_wheel(folder: Path) -> Path:
    (folder / "Thing-1.5.dist-info").mkdir(parents=True)
    (folder / "Thing-1.5.dist-info" / "METADATA").write_text(HEAD)
    (folder / "Thing-1.5.dist-info" / "RECORD").write_text("thing.py,,\n")
    return folder


def in_development(folder: Path) -> Path:
    (folder / "Thing.egg-info").mkdir(parents=True)
    (folder / "Thing.egg-info" / "PKG-INFO").write_text(HEAD)
    (folder / "Thing.egg-info" / "top_level.txt").write_text("thing\n")
    return folder


def in_an_egg(folder: Path) -> Path:
    egg = folder / "Thing-1.5.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "EGG-INFO" / "PKG-INFO").write_text(HEAD)
    (egg / "EGG-INFO" / "top_level.txt").write_text("thing\n")
    return egg


def in_a_zip(folder: Path) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(folder / "thing.zip", "w") as archive:
        archive.writestr("thing.py", "")
        archive.writestr("Thing-1.5.dist-info/METADATA", HEAD)
        archive.writestr("Thing-1.5.dist-info/RECORD", "thing.py,,\n")
    return folder / "thing.zip"


@pytest.mark.parametrize("put", [in_a_wheel, in_development, in_an_egg, in_a_zip])
def test_a_distribution_is_found_in_every_form(tmp_path: Path, put: Callable[[Path], Path]) -> None:
    shelf = packages.read_folder(str(put(tmp_path / "there")))
    assert (shelf["modules"], shelf["versions"]) == ({"thing": ["Thing"]}, {"Thing": "1.5"})


def test_a_folder_of_code_alone_costs_no_look_for_distributions(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "part").mkdir()
    code = (
        "import sys\nfrom jupyter_smx.agent import packages\n"
        "for folder in sys.argv[1:]: print(packages.read_folder(folder)['modules'])\n"
        "print('importlib.metadata' in sys.modules)"
    )
    words = [sys.executable, "-S", "-c", code, str(tmp_path), str(tmp_path / "gone")]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("{}\n{}\nFalse\n", "")


class Timers(Loop):
    """A loop that keeps the timers that it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Any] = []

    def later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.given.append(super().later(seconds, call))
        return self.given[-1]


