"""``--source-dir`` as an archive or a URL: real archives, a real object store, and the process that reads it."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
import tarfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.request import source_copy
from jupyter_smx.kernel.request.source_copy import copy_source
from jupyter_smx.model.errors import UnavailableError, ValidationError
from jupyter_smx.testing.servers.object_storage import Bucket, bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scripted_controller import ScriptedController

__all__ = ["bucket"]

CODE = {"train.py": "import lib.part\n", "lib/part.py": "# part\n", "requirements.txt": "einops\n"}


def archive_of(files: Mapping[str, str], path: Path, *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
        for member in extra:
            archive.addfile(member)
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def files_in(folder: str) -> dict[str, str]:
    return {
        os.path.relpath(path, folder): path.read_text() for path in sorted(Path(folder).rglob("*")) if path.is_file()
    }


@pytest.fixture
def plain(controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a controller for a session outside a notebook, whose temporary files lie in ``tmp_path``."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    session.close_session()
    session.open_session(None)
    yield controller
    session.close_session()


def test_archive_is_packed_like_the_folder_that_it_was_made_of(plain: ScriptedController, tmp_path: Path) -> None:
    archive = archive_of(CODE, tmp_path / "sourcedir.tar.gz")
    job = smx.train(entry_point="train.py", source_dir=archive)
    spec = plain.jobs[job.id].spec
    with tarfile.open(spec.source_dir.path) as packed:
        assert sorted(packed.getnames()) == sorted(CODE)
    assert spec.source_dir.folder == str(archive), "tracebacks name it"
    assert (spec.filename, spec.source) == (f"{archive}/train.py", CODE["train.py"])
    assert spec.requirements == ("einops",)
    assert spec.imports == (), "what comes with the job is not preloaded"
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())


def test_script_that_an_archive_has_is_its_entry_point(plain: ScriptedController, tmp_path: Path) -> None:
    archive = archive_of(CODE, tmp_path / "sourcedir.tgz")
    job = smx.train(Path("train.py"), source_dir=str(archive))
    assert plain.jobs[job.id].spec.entry_point == "train.py"


@pytest.mark.usefixtures("plain")
def test_script_that_an_archive_lacks_is_said_with_its_name(tmp_path: Path) -> None:
    archive = archive_of(CODE, tmp_path / "code.tar.gz")
    with pytest.raises(ValidationError, match=rf"entry_point='?trian\.py'? is not a file in {archive}\.") as refusal:
        smx.train(entry_point="trian.py", source_dir=archive)
    assert "smx-source-" not in str(refusal.value)


def test_links_of_an_archive_are_files_and_others_stay_behind(tmp_path: Path) -> None:
    links = (link("again.py", "train.py"), link("lost.py", "nowhere.py"), link("passwd", "/etc/passwd"))
    found = copy_source(str(archive_of(CODE, tmp_path / "a.tar.gz", *links)))
    assert files_in(found.folder) == {**CODE, "again.py": CODE["train.py"]}


@pytest.mark.parametrize("name", ["../out.py", "/out.py", "lib/../../out.py"])
def test_files_outside_of_an_archive_are_refused(tmp_path: Path, name: str) -> None:
    archive = archive_of({name: "x"}, tmp_path / "a.tar.gz")
    with pytest.raises(ValidationError, match="has a file outside"):
        copy_source(str(archive))
    assert not (tmp_path / "out.py").exists()


def test_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_text("text")
    with pytest.raises(ValidationError, match=r"a\.tar\.gz cannot be unpacked: .* with the code at its top"):
        copy_source(str(tmp_path / "a.tar.gz"))


def test_too_large_an_archive_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_copy, "MAX_BYTES", 10)
    with pytest.raises(ValidationError, match=r"Source code has at most 10 B\."):
        copy_source(str(archive_of(CODE, tmp_path / "a.tar.gz")))


@pytest.mark.usefixtures("tmp_path")
@pytest.mark.processes
def test_url_of_a_folder_and_of_an_archive(
    bucket: Bucket, plain: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    for name, text in {**CODE, "other.py": "x"}.items():
        bucket.put(f"job/{'source' if name in CODE else 'source2'}/{name}", text)
    archive_of(CODE, bucket.folder / "job" / "sourcedir.tar.gz")
    assert files_in(copy_source("s3://bucket/job/source").folder) == CODE

    job = smx.train(entry_point="train.py", source_dir="s3://bucket/job/sourcedir.tar.gz")
    spec = plain.jobs[job.id].spec
    assert spec.source_dir.folder == "s3://bucket/job/sourcedir.tar.gz"
    with tarfile.open(spec.source_dir.path) as packed:
        assert sorted(packed.getnames()) == sorted(CODE)

    for wrong in ("s3://bucket/job/nothing", "s3://bucket/job/none.tar.gz"):
        with pytest.raises(ValidationError, match=r"--source-dir: s3://bucket/job/non?e?.* (has no files|cannot be)"):
            copy_source(wrong)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("line", "named"), [("./lib/a.whl", "lib/a.whl"), ("-e .", "-e ."), (".", "."), ("--find-links lib", "lib")]
)
def test_requirements_that_name_files_of_an_archive_are_refused(tmp_path: Path, line: str, named: str) -> None:
    files = {"train.py": "pass\n", "lib/a.whl": "x", "pyproject.toml": "", "requirements.txt": f"{line}\n"}
    archive = archive_of(files, tmp_path / "code.tar.gz")
    with pytest.raises(ValidationError, match=rf"{re.escape(named)}'? is a path in {archive}\. .*Unpack it") as refusal:
        smx.train(entry_point="train.py", source_dir=archive)
    assert refusal.value.field == "requirements"
    assert "smx-source-" not in f"{refusal.value} {refusal.value.value}"


@pytest.mark.usefixtures("plain")
def test_errors_in_requirements_of_an_archive_name_the_archive(tmp_path: Path) -> None:
    archive = archive_of({**CODE, "requirements.txt": "-r more.txt\n"}, tmp_path / "code.tar.gz")
    with pytest.raises(ValidationError, match=rf"{archive}/requirements\.txt line 1: more\.txt does not") as refusal:
        smx.train(entry_point="train.py", source_dir=archive)
    assert "smx-source-" not in f"{refusal.value} {refusal.value.value}"


def test_links_in_a_circle_stay_behind(tmp_path: Path) -> None:
    archive = archive_of(CODE, tmp_path / "a.tar.gz", link("a.py", "b.py"), link("b.py", "a.py"))
    assert files_in(copy_source(str(archive)).folder) == CODE


@pytest.mark.parametrize(("name", "target"), [("again", "lib"), ("lib/self", "../lib"), ("lib/top", "..")])
def test_links_to_folders_of_an_archive_are_refused(tmp_path: Path, name: str, target: str) -> None:
    archive = archive_of(CODE, tmp_path / "a.tar.gz", link(name, target))
    with pytest.raises(ValidationError, match=rf"link to a folder: {name} leads to {target}\. .*--dereference"):
        copy_source(str(archive))


def test_too_many_files_are_refused_before_they_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_copy, "MAX_FILES", 2)
    with pytest.raises(ValidationError, match=r"has 3 files\. Source code has at most 2\."):
        copy_source(str(archive_of(CODE, tmp_path / "a.tar.gz")))


def test_what_a_gitignore_of_an_archive_names_is_sent(plain: ScriptedController, tmp_path: Path) -> None:
    files = {**CODE, ".gitignore": "*.json\n", "config.json": "{}"}
    job = smx.train(entry_point="train.py", source_dir=archive_of(files, tmp_path / "code.tar.gz"))
    source_dir = plain.jobs[job.id].spec.source_dir
    with tarfile.open(source_dir.path) as packed:
        assert sorted(packed.getnames()) == sorted(files)
    assert source_dir.ignored == ()


@pytest.mark.processes
def test_url_that_does_not_answer_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source_copy, "_WORKER", (sys.executable, "-c", "import signal; signal.pause()"))
    monkeypatch.setattr(source_copy, "LIST_SECONDS", 1.0)
    monkeypatch.setattr(source_copy, "NOTE_SECONDS", 0.0)
    for url in ("s3://bucket/code", "s3://bucket/code.tar.gz"):
        with pytest.raises(UnavailableError, match=rf"{url}/? cannot be read: there was no answer within 1 s\."):
            copy_source(url)
    assert "Reading --source-dir s3://bucket/code.tar.gz …" in capsys.readouterr().err


class PageHandler(SimpleHTTPRequestHandler):
    """Gives the files of a folder, whatever the query is, as a store does with a signature."""

    methods: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        del format, args
        self.methods.append(self.command)


@pytest.mark.processes
def test_signed_url_of_an_archive_is_one_and_its_size_is_read_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_of(CODE, tmp_path / "code.tar.gz")
    monkeypatch.setattr(PageHandler, "methods", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(PageHandler, directory=str(tmp_path))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/code.tar.gz"
            found = copy_source(f"{url}?X-Amz-Signature=abc")
            assert "GET" in PageHandler.methods
            PageHandler.methods.clear()
            monkeypatch.setattr(source_copy, "MAX_BYTES", 10)
            with pytest.raises(ValidationError, match=r"Source code has at most 10 B\."):
                copy_source(url)
            assert set(PageHandler.methods) == {"HEAD"}, "it is not downloaded"
        finally:
            server.shutdown()
            thread.join()
    assert files_in(found.folder) == CODE
    assert found.origin == f"{url}?X-Amz-Signature=…"
