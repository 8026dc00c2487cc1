"""What is installed in a folder: found wherever Python finds it, and looked for only where it can be."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.code import imports, packages
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import Loop
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
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
        "import sys\nfrom jupyter_smx.agent.code import packages\n"
        "for folder in sys.argv[1:]: print(packages.read_folder(folder)['modules'])\n"
        "print('importlib.metadata' in sys.modules)"
    )
    words = [sys.executable, "-S", "-c", code, str(tmp_path), str(tmp_path / "gone")]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("{}\n{}\nFalse\n", "")


@pytest.fixture
def loop() -> Iterator[Loop]:
    before = signal.getsignal(signal.SIGCHLD)
    made = Loop()
    yield made

    def all_are_collected() -> bool:
        made.reap()
        return not made.watched_pids()

    eventually_blocking(all_are_collected, "no errand stays behind, not even as a zombie")
    signal.signal(signal.SIGCHLD, before)


@pytest.fixture
def find(loop: Loop) -> Callable[..., packages.PackageReport]:
    """Give ``find(known, {folder: names})``, which waits for the answer."""

    def ask(known: packages.PackageIndex, imported: dict[str, list[str]]) -> packages.PackageReport:
        answers: list[packages.PackageReport] = []

        def done(found: packages.PackageReport) -> None:
            answers.append(found)
            loop.stop()

        known.find(imported, done)
        if not answers:
            loop.run()
        (answer,) = answers
        return answer

    return ask


def test_nothing_waits_any_more_when_a_search_has_answered(
    tmp_path: Path, loop: Loop, find: Callable[..., packages.PackageReport]
) -> None:
    (tmp_path / "mine.py").write_text("")
    known = packages.PackageIndex(loop)
    for _ in range(3):
        (own,) = find(known, {str(tmp_path): ["mine"]}).own
        assert own["path"] == str(tmp_path / "mine.py")
    assert [timer for _, _, timer in loop._timers if timer.call is not None] == []


def test_a_search_that_takes_too_long_is_ended_and_its_job_told_what_is_not_known(
    tmp_path: Path, loop: Loop, find: Callable[..., packages.PackageReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "PATIENCE", 0.05)
    monkeypatch.setattr(packages, "read_folder", lambda _folder: signal.pause())
    found = find(packages.PackageIndex(loop), {str(tmp_path): ["mine.part"]})
    assert found.notes == ["Versions of mine are unknown: it took more than 0.05 s."]


def test_folders_that_are_gone_are_forgotten_when_their_job_has_its_answer(
    tmp_path: Path, loop: Loop, find: Callable[..., packages.PackageReport]
) -> None:
    known = packages.PackageIndex(loop)
    stays = in_a_wheel(tmp_path / "stays")
    for number in range(3):
        folder = tmp_path / f"code-{number}"
        folder.mkdir()
        (folder / "mine.py").write_text("")
        imported = {str(folder): ["mine"], str(stays): ["thing"]}
        assert find(known, imported).packages == {"Thing": "1.5"}
        shutil.rmtree(folder)
        found = find(known, imported)
        assert (found.packages, [one["name"] for one in found.own]) == ({"Thing": "1.5"}, ["mine"])
        assert list(known._indexes) == [str(stays)]


def test_a_folder_that_is_forgotten_while_somebody_searches_is_known_to_that_search(
    tmp_path: Path, loop: Loop, find: Callable[..., packages.PackageReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, here = in_a_wheel(tmp_path / "gone"), tmp_path / "here"
    here.mkdir()
    (here / "mine.py").write_text("")
    known = packages.PackageIndex(loop)
    assert find(known, {str(gone): ["thing"]}).packages == {"Thing": "1.5"}
    begin, started = packages._Search.begin, []  # type: Callable[[packages._Search], None], list[bool]

    def forget_and_begin(search: packages._Search) -> None:
        started.append(True)
        shutil.rmtree(gone)
        known.update({})
        begin(search)

    monkeypatch.setattr(packages._Search, "begin", forget_and_begin)
    assert find(known, {str(gone): ["thing"], str(here): ["mine"]}).packages == {"Thing": "1.5"}
    assert (started, list(known._indexes)) == ([True], [str(here)])


def imported_as(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> dict[str, list[str]]:
    """Give what a job imported whose new modules have these files."""
    for name in files:  # another test of this process may have loaded it: then it would not be new
        monkeypatch.delitem(sys.modules, name, raising=False)
    imports.begin_job()
    for name, file in files.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, origin=file)
        monkeypatch.setitem(sys.modules, name, module)
    return imports.imports_by_folder()


def test_a_compiled_part_of_a_package_that_is_loaded_under_its_last_name_belongs_to_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = "/far/lib/python3.11/site-packages/scipy/ndimage/_ni_label.cpython-311-x86_64-linux-gnu.so"
    imported = imported_as(monkeypatch, {"_ni_label": part, "mine": "/home/me/mine.py"})
    assert imported == {"/far/lib/python3.11/site-packages": ["scipy.ndimage._ni_label"], "/home/me": ["mine"]}
    shelf = {"stamp": 1, "modules": {"scipy": ["scipy"]}, "versions": {"scipy": "1.17"}, "direct": {}}
    nothing = {"stamp": 1, "modules": {}, "versions": {}, "direct": {}}
    found = packages.resolve(imported, {"/far/lib/python3.11/site-packages": shelf, "/home/me": nothing})
    assert (found.packages, found.installed) == ({"scipy": "1.17"}, ["scipy"])
    assert found.own == [{"folder": "/home/me", "name": "mine"}]


def test_a_module_of_an_egg_or_beside_packages_keeps_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    egg, beside = "/far/site-packages/Thing-1.5.egg", "/far/dist-packages"
    imported = imported_as(monkeypatch, {"thing": f"{egg}/thing.py", "other": f"{beside}/other.py"})
    assert imported == {egg: ["thing"], beside: ["other"]}


def test_a_compiled_module_of_the_user_has_a_hash(
    tmp_path: Path, loop: Loop, find: Callable[..., packages.PackageReport]
) -> None:
    (tmp_path / f"fast{EXTENSION_SUFFIXES[0]}").write_bytes(b"compiled")
    (own,) = find(packages.PackageIndex(loop), {str(tmp_path): ["fast"]}).own
    assert (own["path"], len(own["sha256"])) == (str(tmp_path / f"fast{EXTENSION_SUFFIXES[0]}"), 64)


def test_what_an_agent_brings_in_its_archive_is_no_package_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in an archive has no time, so a look at it would be repeated after each job: 20 ms."""
    monkeypatch.setattr(process, "entry", lambda: "/far/agent.pyz")
    inside = ModuleSpec("cloudpickle", None, origin="/far/agent.pyz/jupyter_smx/agent/carried/cloudpickle/__init__.py")
    beside = ModuleSpec("cloudpickle", None, origin="/far/site-packages/cloudpickle/__init__.py")
    for spec in (inside, beside):
        spec.submodule_search_locations = []
    assert [imports.folder_of("cloudpickle", spec) for spec in (inside, beside)] == ["", "/far/site-packages"]
