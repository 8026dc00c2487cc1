"""Packing a folder of code: which files are sent, which are not, and when it is packed again."""

from __future__ import annotations

import errno
import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from jupyter_smx.kernel.request import script, source_dir
from jupyter_smx.kernel.request.payload import store_by_digest
from jupyter_smx.model.errors import UnavailableError, ValidationError
from jupyter_smx.model.options.spelling import respell

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import SourceDir


def fill(folder: Path, *names: str, old: bool = False) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
        if old:
            os.utime(path, (1e9, 1e9))
    return folder


def names(found: SourceDir) -> list[str]:
    with tarfile.open(found.path) as archive:
        return archive.getnames()


def pack(folder: Path, entry_point: str = "") -> SourceDir:
    return source_dir.pack(str(folder), folder.parent / "smx" / "payloads", entry_point)


def test_files_travel_under_their_names_and_the_archive_is_named_by_its_content(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py", "pkg/__init__.py", "pkg/part.py", "日本 ünï.txt")
    found = pack(src)
    assert names(found) == ["pkg/__init__.py", "pkg/part.py", "train.py", "日本 ünï.txt"]
    assert (found.files, found.folder) == (4, str(src))
    assert found.size == sum(path.stat().st_size for path in src.rglob("*") if path.is_file())
    assert found.path == str(tmp_path / "smx" / "payloads" / f"{found.sha256}.tar.gz")
    assert Path(found.path).stat().st_mode & 0o777 == 0o600


def test_equal_content_makes_an_equal_archive_whenever_and_wherever(tmp_path: Path) -> None:
    first = fill(tmp_path / "a", "train.py", "pkg/part.py")
    second = fill(tmp_path / "b", "pkg/part.py", "train.py", old=True)
    assert pack(first).sha256 == pack(second).sha256
    (second / "train.py").chmod(0o755)
    assert pack(first).sha256 != pack(second).sha256  # a program stays one


def test_version_control_caches_and_environments_stay_here(tmp_path: Path) -> None:
    src = fill(
        tmp_path / "src", "train.py", ".git/config", ".hg/x", ".svn/x", "pkg/__pycache__/a.pyc",
        ".ipynb_checkpoints/n.ipynb", "env/pyvenv.cfg", "env/lib/big.py", "conda/conda-meta/history", ".env",
        "lib/a.py",
    )  # fmt: skip
    assert names(pack(src)) == [".env", "lib/a.py", "train.py"]


def test_a_file_that_goes_away_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = fill(tmp_path / "src", "train.py", "shy.py")

    def keep_late(*arguments: Any, **options: Any) -> Any:
        (src / "shy.py").unlink()
        return store_by_digest(*arguments, **options)

    monkeypatch.setattr(source_dir, "store_by_digest", keep_late)
    with pytest.raises(ValidationError, match=r"shy\.py cannot be packed: No such file or directory"):
        pack(src)
    assert not list((tmp_path / "smx" / "payloads").iterdir())


def test_gitignore_is_heeded_as_git_heeds_it(tmp_path: Path) -> None:
    src = fill(
        tmp_path / "src", "train.py", "a.log", "keep.log", "build/x.py", "data/big.bin", "pkg/data/small.csv",
        "pkg/a.log", "pkg/b.txt", "pkg/deep/b.txt", "pkg/deep/c.txt",
    )  # fmt: skip
    (src / ".gitignore").write_text("# ours\n*.log\n!keep.log\nbuild/\n/data\n")
    (src / "pkg" / ".gitignore").write_text("b.txt\n!a.log\n!deep/b.txt\n")
    assert names(pack(src)) == [
        ".gitignore", "keep.log", "pkg/.gitignore", "pkg/a.log", "pkg/data/small.csv", "pkg/deep/b.txt",
        "pkg/deep/c.txt", "train.py",
    ]  # fmt: skip


def test_what_gitignore_excludes_is_known_by_name(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py", "config.json", "data/big.bin", "pkg/__pycache__/a.pyc", "pkg/a.json")
    (src / ".gitignore").write_text("*.json\n/data\n")
    assert pack(src).ignored == ("config.json", "data/", "pkg/a.json")


def test_of_many_ignored_files_only_the_first_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = fill(tmp_path / "src", "train.py", "a.json", "b.json", "c.json")
    (src / ".gitignore").write_text("*.json\n")
    monkeypatch.setattr(source_dir, "_MAX_IGNORED", 2)
    assert pack(src).ignored == ("a.json", "b.json")


def test_all_files_travel_where_nothing_is_ignored(tmp_path: Path) -> None:
    everything = [
        ".git/config", ".gitignore", "config.json", "env/lib/big.py", "env/pyvenv.cfg", "pkg/__pycache__/a.pyc",
        "train.py",
    ]  # fmt: skip
    src = fill(tmp_path / "src", *everything)
    (src / ".gitignore").write_text("*.json\n")
    fill(tmp_path / "src", "smx/payloads/old.pkl")
    found = source_dir.pack(str(src), src / "smx" / "payloads", "train.py", sends_all=True)
    assert names(found) == everything, "the data folder alone never travels"
    assert found.ignored == ()
    assert names(source_dir.pack(str(src), src / "smx" / "payloads")) == [".gitignore", "train.py"]


def test_too_large_a_folder_without_exclusions_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = fill(tmp_path / "src", "train.py", "big.bin")
    monkeypatch.setattr(source_dir, "MAX_BYTES", 10)
    with pytest.raises(ValidationError) as raised:
        source_dir.pack(str(src), tmp_path / "smx" / "payloads", sends_all=True)
    assert raised.value.cure.startswith("Leave out --source-ignore none. ")


@pytest.mark.processes
def test_what_git_says_and_what_travels_are_the_same(tmp_path: Path) -> None:
    import subprocess  # noqa: PLC0415 - this test asks git itself

    src = fill(tmp_path / "src", "a.py", "b/a.py", "b/c/a.txt", "b/c/d.py", "out/x", "deep/out/x", "z.tmp", "b/z.tmp")
    (src / ".gitignore").write_text("out\n*.tmp\n!/b/*.tmp\nb/**/a.txt\n")
    git = ["git", "-C", str(src), "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q"], check=True)
    said = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    assert names(pack(src)) == sorted(said.stdout.split())


def test_links_are_followed_as_sagemakers_sdk_does_and_dead_ones_left_out(tmp_path: Path) -> None:
    shared = fill(tmp_path / "shared", "common.py", "lib/deep.py")
    src = fill(tmp_path / "src", "train.py")
    (src / "common.py").symlink_to(shared / "common.py")
    (src / "lib").symlink_to(shared / "lib")
    (src / ".#train.py").symlink_to("me@host.1234")
    os.mkfifo(src / "pipe")
    found = pack(src)
    assert names(found) == ["common.py", "lib/deep.py", "train.py"]
    with tarfile.open(found.path) as archive:
        assert all(member.isfile() for member in archive)


def test_a_link_without_an_end_is_refused(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py", "pkg/a.py")
    (src / "pkg" / "again").symlink_to(src)
    with pytest.raises(ValidationError, match="pkg/again is a link to a folder that contains it"):
        pack(src)
    (src / ".gitignore").write_text("again\n")
    assert "train.py" in names(pack(src))


def test_too_large_a_folder_names_what_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = fill(tmp_path / "src", "train.py")
    for name, size in {"data/a.bin": 3000, "data/b.bin": 3000, "model.pt": 4000, "pkg/x.py": 5}.items():
        fill(src, name)
        (src / name).write_bytes(b"x" * size)
    monkeypatch.setattr(source_dir, "MAX_BYTES", 9_000)
    with pytest.raises(ValidationError, match=r"5 files, 9\.8 KiB") as raised:
        pack(src)
    assert "The largest: data/ 5.9 KiB, model.pt 3.9 KiB, train.py 11 B." in str(raised.value)
    assert "pass data with --input" in str(raised.value)
    assert not (tmp_path / "smx").exists()
    monkeypatch.setattr(source_dir, "MAX_BYTES", 20_000)
    monkeypatch.setattr(source_dir, "MAX_FILES", 4)
    with pytest.raises(ValidationError, match="more than 4 files"):
        pack(src)


def test_a_change_within_the_tick_of_the_packing_is_seen(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py")
    seen = set()
    for number in range(5):
        state = (src / "train.py").stat()
        (src / "train.py").write_text(f"# {number:05} \n")
        os.utime(src / "train.py", ns=(state.st_atime_ns, state.st_mtime_ns))
        seen.add(pack(src).sha256)
    assert len(seen) == 5


def test_a_folder_of_payloads_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py")
    (tmp_path / "smx").write_text("a file where the data folder should be")
    with pytest.raises(UnavailableError, match="The job's files cannot be stored in"):
        source_dir.pack(str(src), tmp_path / "smx" / "payloads")


def test_the_data_folder_never_travels(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "smx/payloads/old.pkl")
    assert names(source_dir.pack(str(tmp_path), tmp_path / "smx" / "payloads")) == ["train.py"]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (
            "scr",
            "--source-dir is a folder of this machine, a .tar.gz archive, or a URL of one of them. Did you mean src?",
        ),
        ("train.py", "train.py is a file."),
        ("train.py", "For the file alone leave --source-dir out: --entry-point train.py."),
        ("src/none", "was searched."),
    ],
)
def test_what_is_no_folder_here_is_refused(tmp_path: Path, word: str, sentence: str) -> None:
    fill(tmp_path, "src/a.py", "train.py")
    with pytest.raises(ValidationError) as raised:
        script.check_folder(script.absolute_folder(word, tmp_path))
    assert sentence in str(raised.value)


def test_an_entry_point_that_stays_here_is_refused(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py", "helper.py")
    (src / ".gitignore").write_text("train.py\n")
    with pytest.raises(ValidationError, match=r"train\.py is excluded .* Add !train\.py as the last line"):
        pack(src, "train.py")


def test_modules_that_code_may_import_from_its_folder(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "helper.py", "pkg/__init__.py", "space/part.py", "data/a.csv", "fast.cpython-311.so")
    assert script.own_modules(str(src)) == {"helper", "pkg", "space", "fast"}
    assert script.own_modules(str(src / "absent")) == frozenset()


@pytest.mark.parametrize("code", ["", "\n \n", "# only this\n  # and this\n"])
def test_comments_are_no_code(tmp_path: Path, code: str) -> None:
    fill(tmp_path, "train.py")
    found = script.choose_script(code, "", "train.py", tmp_path)
    assert (found.text, found.entry_point) == ("# train.py\n", "train.py")
    assert found.filename == str(tmp_path / "train.py")


@pytest.mark.parametrize("code", ["1", "'''text'''", "# c\nx = (", "pass"])
def test_one_of_the_two_is_run_and_never_a_guess(tmp_path: Path, code: str) -> None:
    fill(tmp_path, "train.py")
    with pytest.raises(
        ValidationError, match=r"train\.py cannot be combined with code.*Empty the cell .* or remove --entry-point"
    ):
        script.choose_script(code, "", "train.py", tmp_path)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("src/train.py", "Its path starts at --source-dir: --entry-point train.py."),
        ("tran.py", "Did you mean train.py"),
        ("pkg", "is not a file in"),
        ("run.txt", "is not a script that a job can run"),
        ("bad name.sh", "As on SageMaker, it has only letters"),
        ("日本.py", "As on SageMaker"),
        ("../other.py", "As on SageMaker"),
        ("bad name.sh", "is not a valid script path. As on SageMaker"),
        ("run.txt", "`chmod +x src/run.txt`, if it is a program."),
        ("run it", "is not a valid script path"),
        ("src/tran.py", "Did you mean train.py"),
        ("note.ipynb", "`jupyter nbconvert --to script src/note.ipynb` converts it to a script."),
        ("nothing.py", "is empty"),
    ],
)
def test_an_entry_point_that_cannot_be_run_is_refused(tmp_path: Path, word: str, sentence: str) -> None:
    src = fill(
        tmp_path / "src",
        "train.py",
        "pkg/a.py",
        "run.txt",
        "run it",
        "bad name.sh",
        "日本.py",
        "note.ipynb",
        "../other.py",
    )
    (src / "nothing.py").touch()
    with pytest.raises(ValidationError) as raised:
        script.choose_script("", str(src), word, tmp_path)
    assert sentence in str(raised.value)


def test_paths_of_a_cure_are_quoted_as_a_shell_wants_them(tmp_path: Path) -> None:
    src = fill(tmp_path / "my src", "run", "my book.ipynb")
    for word, cure in (("run", "chmod +x 'my src/run'"), ("my book.ipynb", "script 'my src/my book.ipynb'")):
        with pytest.raises(ValidationError) as raised:
            script.choose_script("", str(src), word, tmp_path)
        assert f"{cure}`" in raised.value.cure
    for read in (
        lambda: script.choose_script("", "", "my book.ipynb", src),
        lambda: script.read_script("my book.ipynb", "SCRIPT"),
    ):
        with pytest.raises(ValidationError, match=r"is a notebook\..*`jupyter nbconvert --to script 'my book.ipynb'`"):
            read()


def test_an_absolute_entry_point_is_found_in_its_folder(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "sub/train.py")
    assert script.choose_script("", str(src), str(src / "sub" / "train.py"), tmp_path).entry_point == "sub/train.py"
    alone = script.choose_script("", "", str(src / "sub" / "train.py"), tmp_path)
    assert (alone.entry_point, alone.filename) == ("train.py", str(src / "sub" / "train.py"))


@pytest.mark.parametrize(
    ("name", "data", "runs", "text"),
    [
        ("run.sh", b"echo 1\n", False, "echo 1\n"),
        ("bin/run", b"#!/usr/bin/env perl\n", False, "#!/usr/bin/env perl\n"),
        ("run.pl", b"print 1\n", True, "print 1\n"),
        ("tool", b"\x7fELF\xff\xfe", False, "# tool is a program of 6 bytes.\n"),
    ],
)
def test_any_program_of_the_folder_may_be_the_entry_point(
    tmp_path: Path, name: str, data: bytes, runs: bool, text: str
) -> None:
    path = tmp_path / "src" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    path.chmod(0o755 if runs else 0o644)
    found = script.choose_script("", str(tmp_path / "src"), name, tmp_path)
    assert (found.text, found.entry_point, found.is_python()) == (text, name, False)


def test_alone_travels_what_is_text(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("echo 1\n")
    (tmp_path / "tool").write_bytes(b"#!/bin/sh\r\n")
    (tmp_path / "plain").write_text("echo 1\n")
    (tmp_path / "binary").write_bytes(b"#!/bin/sh\n\xff\xfe")
    assert script.choose_script("", "", "run.sh", tmp_path).text == "echo 1\n"
    found = script.choose_script("", "", "tool", tmp_path)
    assert (found.text, found.entry_point, found.is_python()) == ("#!/bin/sh\r\n", "tool", False)
    with pytest.raises(ValidationError, match=r"Pass the folder of the program with --source-dir"):
        script.choose_script("", "", "plain", tmp_path)
    with pytest.raises(ValidationError, match=r"is a binary program\..*--source-dir '\.' --entry-point 'binary'\."):
        script.choose_script("", "", "binary", tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "entry_point"),
    [
        ("train", b"#!/bin/bash\nls\n", True),
        ("x.R", b"#!/usr/bin/env Rscript\nx <- 1\n", True),
        ("x.pl", b"#! /usr/bin/env -S perl -w\n", True),
        ("x.sh", b"ls\n", True),
        ("train", b"#!/usr/bin/env python3\nx = 1\n", False),
        ("train", b"#!/opt/conda/bin/python3.11 -u\nx = 1\n", False),
        ("train", b"x = 1\n", False),
        ("train-1.2", b"x = 1\n", False),
        ("x.py", b"#!/bin/bash\nx = 1\n", False),
        ("empty", b"", False),
    ],
)
def test_a_script_that_is_named_alone_runs_as_what_it_is(
    tmp_path: Path, name: str, data: bytes, entry_point: bool
) -> None:
    (tmp_path / name).write_bytes(data)
    assert script.entry_point_of(name, "", tmp_path, "SCRIPT") == (name if entry_point else "")
    absolute = str(tmp_path / name)
    assert script.entry_point_of(absolute, "", tmp_path, "SCRIPT") == (absolute if entry_point else "")


@pytest.mark.parametrize(
    ("folder", "name", "cure"),
    [
        ("bin", "prog", "source_dir='bin' entry_point='prog'"),
        ("src", "train", "source_dir='src' entry_point='train'"),
        ("my code", "a+b", "source_dir='my code' entry_point='a+b'"),
        ("bin", "prog.v1", "source_dir='bin' entry_point='prog.v1'"),
    ],
)
def test_the_cure_for_a_binary_program_can_be_written_in_python(
    tmp_path: Path, folder: str, name: str, cure: str
) -> None:
    path = tmp_path / folder / name
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ValidationError) as refused:
        script.entry_point_of(f"{folder}/{name}", "", tmp_path, "SCRIPT")
    assert respell(refused.value, "keyword").cure == f"Pass its folder: {cure}."


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("x.R", b"x <- 1\n", "SCRIPT: x.R is not Python, by its name. .* Write `#!/usr/bin/env Rscript` as its first"),
        ("x.R", b"x = 1\n", "is not Python, by its name"),
        ("x.jl", b"", "Write `#!/usr/bin/env julia`"),
        ("notes.txt", b"x = 1\n", "If it is Python, end its name with .py"),
        ("tool", b"\x7fELF\0\0", r"is a binary program\. .* --source-dir '\.' --entry-point 'tool'\."),
    ],
)
def test_what_no_program_is_named_for_is_refused(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValidationError, match=sentence) as refused:
        script.entry_point_of(name, "", tmp_path, "SCRIPT")
    assert refused.value.field == "source"


def test_a_script_that_lies_only_in_the_folder_is_its_entry_point(tmp_path: Path) -> None:
    src = fill(tmp_path / "src", "train.py", "sub/fit.py", "both.py", "x.R")
    fill(tmp_path, "both.py", "here.py")
    for word, expected in {
        "train.py": "train.py",
        "sub/fit.py": "sub/fit.py",
        "x.R": "x.R",
        "both.py": "",
        "here.py": "",
        "src/train.py": "",
    }.items():
        assert script.entry_point_of(word, str(src), tmp_path, "SCRIPT") == expected, word
    sentence = rf"trian\.py does not exist, neither here nor in {src}\. .*Did you mean train\.py"
    with pytest.raises(ValidationError, match=sentence):
        script.entry_point_of("trian.py", str(src), tmp_path, "SCRIPT")
    with pytest.raises(ValidationError, match=r"--source-dir: .*/scr does not exist\. .*Did you mean src"):
        script.entry_point_of("train.py", str(tmp_path / "scr"), tmp_path, "SCRIPT")


@settings(deadline=None)
@given(st.dictionaries(st.text("ab/._", min_size=1, max_size=8), st.binary(max_size=30), max_size=6))
def test_what_is_packed_comes_out_as_it_was(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("any") / "src"
    folder.mkdir()
    for name, data in files.items():
        path = folder / os.path.normpath(name.strip("/") or "x")
        if ".." in name or not str(path).startswith(f"{folder}/") or path.exists() or path.name == ".gitignore":
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            continue
        path.write_bytes(data)
    found = pack(folder)
    with tarfile.open(found.path) as archive:
        out = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert out == {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("inside", ["", "shut"])
def test_a_folder_that_may_not_be_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    src = fill(tmp_path / "src", "train.py", "shut/secret.py")
    shut, scandir = src / inside, os.scandir

    def refusing(path: str) -> Any:
        # Tests may run as root, which no mode of a folder keeps out.
        if Path(path) == shut:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(ValidationError) as caught:
        pack(src)
    assert caught.value.message == f"--source-dir: {shut} cannot be packed: Permission denied."
    assert caught.value.cure.startswith("Give yourself the right to read it, or name it in ")
    assert [each for each in (tmp_path / "smx").rglob("*") if each.is_file()] == []


PARTS = st.sampled_from(["a", "b", "*", "**", "?", "[ab]", "!", "#", ".py", "\\", "/", " ", "(?P<x>"])
LINES = st.lists(st.lists(PARTS, max_size=6).map("".join), max_size=5)
NAMES = st.lists(st.sampled_from(["a", "b", "a.py", "!a", "(?P<x>"]), min_size=1, max_size=3).map("/".join)


@given(LINES, NAMES, st.booleans())
@example(["*/", "!b/"], "a/b", True)
@example(["**/"], "a/b", True)
@example(["*"], "a/b", False)
def test_a_quick_look_at_a_name_changes_no_answer(lines: list[str], name: str, is_folder: bool) -> None:
    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except ValueError:  # no pattern of git's
        return
    asked = f"{name}/" if is_folder else name
    with TemporaryDirectory() as folder:
        path = Path(folder, ".gitignore")
        path.write_text("\n".join(lines), encoding="utf-8")
        assert source_dir._read_rules("", path).includes(asked) == spec.check_file(asked).include
