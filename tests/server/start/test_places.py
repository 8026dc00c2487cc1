"""Where the files of a job are for the browser of a server: below its folder, hidden, behind links, elsewhere, gone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.services.contents.manager import ContentsManager
from tornado.httpclient import HTTPClientError

from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Artifact, Channel, Output
from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir
from jupyter_smx.server.handlers.file_locations import MAX_PATHS, ContentsRoot, FileLocation, locate_files, paths_of

if TYPE_CHECKING:
    from pathlib import Path

    from fake_controller import FakeController

GONE = FileLocation(exists=False, is_folder=False, shown_as=None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "lab" / "sub").mkdir(parents=True)
    return tmp_path / "lab"


def place(path: Path, root: Path, **how: Any) -> FileLocation:
    return locate_files([str(path)], ContentsRoot(root=str(root), **how)).places[str(path)]


def test_a_file_below_the_folder_has_the_name_that_the_browser_of_files_gives_it(root: Path) -> None:
    file = root / "sub" / "a b.ipynb"
    file.touch()
    assert place(file, root) == FileLocation(exists=True, is_folder=False, shown_as="sub/a b.ipynb")
    assert place(root / "sub", root) == FileLocation(exists=True, is_folder=True, shown_as="sub")
    assert place(root, root) == FileLocation(exists=True, is_folder=True, shown_as="")


def test_what_lies_elsewhere_is_there_and_is_not_shown(root: Path) -> None:
    (root.parent / "lab-too").mkdir()
    assert place(root.parent / "lab-too", root) == FileLocation(exists=True, is_folder=True, shown_as=None)
    assert place(root / "sub" / ".." / "..", root) == FileLocation(exists=True, is_folder=True, shown_as=None)
    assert locate_files(["/"], ContentsRoot(root="")).places["/"].shown_as is None


def test_a_folder_has_the_same_files_under_the_name_of_a_link(root: Path) -> None:
    (root / "file").touch()
    link = root.parent / "link"
    link.symlink_to(root)
    assert place(link / "file", root).shown_as == "file"


def test_hidden_files_are_shown_where_the_server_shows_them(root: Path) -> None:
    (root / ".local").mkdir()
    file = root / ".local" / "model.tar.gz"
    file.touch()
    assert place(file, root).shown_as is None
    assert place(file, root, hidden=True).shown_as == ".local/model.tar.gz"


def test_what_is_gone_or_cannot_be_a_path_is_said_to_be_gone(root: Path) -> None:
    assert place(root / "gone", root) == GONE
    assert place(root / ("x" * 5000), root) == GONE
    assert place(root / "nul\0", root) == GONE


@pytest.mark.skipif(os.getuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered_shows_nothing(root: Path) -> None:
    (root / "sub").chmod(0)
    assert place(root / "sub" / "a", root) == GONE


def test_a_record_names_its_notebook_script_inputs_outputs_and_artefacts_once() -> None:
    spec = JobSpec(
        kind="train",
        source="",
        notebook="/n/a.ipynb",
        filename="<digits>",
        source_dir=SourceDir(folder="/n", path="/p", sha256="", files=1, size=1),
        channels=(Channel(name="a", source="s3://b/c"), Channel(name="b", source="/n")),
        outputs=(Output(name="model", path="model", destination="/m"), Output(name="data", path="data")),
    )
    home = tuple(Artifact(name=str(n), path=f"/d/{n}", size=1) for n in range(MAX_PATHS))
    paths = paths_of(Job(id="a", name="a", spec=spec, artifacts=home))
    assert paths[:4] == ["/n/a.ipynb", "/n", "/m", "/d/0"]
    assert len(paths) == MAX_PATHS


def test_only_a_server_of_files_of_this_machine_shows_any(root: Path) -> None:
    assert ContentsRoot.from_manager(FileContentsManager(root_dir=str(root))) == ContentsRoot(
        root=os.path.realpath(root)
    )
    assert ContentsRoot.from_manager(ContentsManager()) == ContentsRoot(root="")


async def test_the_route_looks_at_the_paths_of_the_record_on_this_server(
    jp_fetch: Any, jp_root_dir: Path, controller: FakeController
) -> None:
    notebook = jp_root_dir / "mine.ipynb"
    notebook.touch()
    record = Job(id="a", name="digits-a", spec=JobSpec(kind="train", source="", notebook=str(notebook)))
    controller.answer("GET", "/v1/jobs/a", 200, record)
    answer = await jp_fetch("jupyter-smx", "jobs", "a", "places")
    found = json.loads(answer.body)["places"]
    assert found == {str(notebook): {"exists": True, "is_folder": False, "shown_as": "mine.ipynb"}}


async def test_of_a_job_that_is_gone_the_route_says_what_the_controller_says(
    jp_fetch: Any, controller: FakeController
) -> None:
    controller.refuse("GET", "/v1/jobs/a", 404, "ResourceNotFound", "There is no job 'a'.")
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("jupyter-smx", "jobs", "a", "places")
    assert caught.value.code == 404
    assert json.loads(caught.value.response.body)["message"] == "There is no job 'a'."
