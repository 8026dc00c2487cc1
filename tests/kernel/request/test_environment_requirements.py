"""Requirements files: everything they name travels, or is refused with file, line and cure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.request import requirements
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(folder: Path, text: str) -> tuple[str, ...]:
    written(folder, "requirements.txt", text)
    return requirements.read("requirements.txt", folder)


def refusal(folder: Path, text: str) -> ValidationError:
    with pytest.raises(ValidationError) as told:
        read(folder, text)
    assert told.value.field == "requirements"
    return told.value


def test_lines_are_read_as_pip_reads_them(tmp_path: Path) -> None:
    text = (
        "# all of it\n\nnumpy==2.1  # fast\n  pandas>=2,<3 ; python_version > '3.8'\n"
        "torch[a,b] \\\n  --hash=sha256:00 \\\n  --hash=sha256:11\n--pre\ngit+https://x.example/p.git#egg=p\n"
    )
    assert read(tmp_path, text) == (
        "numpy==2.1",
        "pandas>=2,<3 ; python_version > '3.8'",
        "torch[a,b] --hash=sha256:00 --hash=sha256:11",
        "--pre",
        "git+https://x.example/p.git#egg=p",
    )


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"\xef\xbb\xbfnumpy\r\npandas\r\n")
    assert requirements.read("requirements.txt", tmp_path) == ("numpy", "pandas")


@pytest.mark.parametrize(
    "spelling", ["-r more/a.txt", "-rmore/a.txt", "--requirement more/a.txt", "--requirement=more/a.txt"]
)
def test_files_that_a_file_names_are_read_beside_it(tmp_path: Path, spelling: str) -> None:
    written(tmp_path, "more/a.txt", "a\n-r b.txt\n")
    written(tmp_path, "more/b.txt", "b\n")
    assert read(tmp_path, f"first\n{spelling}\nlast") == ("first", "a", "b", "last")


def test_constraints_travel_as_such_also_those_of_nested_files(tmp_path: Path) -> None:
    written(tmp_path, "limits.txt", "numpy<2\n-r more.txt\n")
    written(tmp_path, "more.txt", "pandas<3\n")
    assert read(tmp_path, "numpy\n-c limits.txt\nscipy") == ("numpy", "-c numpy<2", "-c pandas<3", "scipy")


def test_a_circle_of_files_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "b.txt", "-r requirements.txt\n")
    assert "circle" in str(refusal(tmp_path, "-r b.txt"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("numpy=1.2", "requirements.txt line 2: 'numpy=1.2' is not a requirement."),
        ("import numpy", "requirements.txt line 2: 'import numpy' is not a requirement."),
        ("-r other.txt", "requirements.txt line 2: other.txt does not exist."),
        ("-c https://x.example/limits.txt", "requirements.txt line 2: https://x.example/limits.txt is an address."),
        ("-e ./nothing", "requirements.txt line 2: ./nothing does not exist."),
        ("-e .", "requirements.txt line 2: . has no pyproject.toml and no setup.py."),
        ("./gone.whl", "requirements.txt line 2: ./gone.whl does not exist."),
        ("~nobody-here/a.whl", "requirements.txt line 2: ~nobody-here/a.whl does not exist."),
        ("--index-url https://me:secret@x.example/simple", "requirements.txt line 2: an address has a password."),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_file_line_and_cure(tmp_path: Path, line: str, said: str) -> None:
    told = refusal(tmp_path, f"numpy\n{line}\n")
    assert str(told).startswith(f"--requirements: {said}")
    assert "me:secret" not in str(told)


def test_a_variable_in_the_place_of_a_password_is_left_to_pip(tmp_path: Path) -> None:
    line = "--index-url https://me:${TOKEN}@x.example/simple"
    assert read(tmp_path, line) == (line,)


def test_no_file_says_which_is_near(tmp_path: Path) -> None:
    written(tmp_path, "requirements-gpu.txt", "torch")
    with pytest.raises(
        ValidationError, match=r"requirement-gpu.txt does not exist. Did you mean requirements-gpu.txt\?"
    ):
        requirements.read("requirement-gpu.txt", tmp_path)
    with pytest.raises(ValidationError, match="cannot be read: Is a directory"):
        requirements.read(".", tmp_path)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe\x00n")
    with pytest.raises(ValidationError, match="is not text"):
        requirements.read("requirements.txt", tmp_path)
    assert "262144 at most" in str(refusal(tmp_path, "numpy\n" * 60_000))


def test_local_paths_become_absolute_and_their_content_counts(tmp_path: Path) -> None:
    wheel = written(tmp_path, "wheels/a-1-py3-none-any.whl", "one")
    (first,) = read(tmp_path, "wheels/a-1-py3-none-any.whl")
    assert first.startswith(f"{wheel} # content ")
    wheel.write_text("two")
    (second,) = read(tmp_path, "./wheels/a-1-py3-none-any.whl")
    assert second.split(" # ")[0] == str(wheel)
    assert second != first
    (named,) = read(tmp_path, f"a @ file://{wheel}")
    assert named == f"a @ file://{wheel} # content {second.split()[-1]}"


def test_a_folder_is_another_one_when_any_of_its_files_changes(tmp_path: Path) -> None:
    written(tmp_path, "pkg/pyproject.toml", "")
    module = written(tmp_path, "pkg/src/pkg.py", "one")
    (first,) = read(tmp_path, "./pkg[extra] ; python_version > '3'")
    assert first.startswith(f"{tmp_path}/pkg[extra] ; python_version > '3' # content ")
    written(tmp_path, "pkg/.git/index", "any")
    assert read(tmp_path, "./pkg[extra] ; python_version > '3'") == (first,)
    os.utime(module, (1.0, 1.0))
    assert read(tmp_path, "./pkg[extra] ; python_version > '3'") != (first,)


def test_an_editable_project_is_another_one_when_its_metadata_change_and_not_when_its_code_does(tmp_path: Path) -> None:
    metadata = written(tmp_path, "pkg/pyproject.toml", "one")
    module = written(tmp_path, "pkg/pkg.py", "one")
    first = read(tmp_path, "-e pkg")
    assert first[0].startswith(f"-e {tmp_path}/pkg # content ")
    module.write_text("two")
    assert read(tmp_path, "--editable=./pkg/") == first
    metadata.write_text("two")
    assert read(tmp_path, "-e pkg") != first
    assert read(tmp_path, "-e git+https://x.example/p.git#egg=p") == ("-e git+https://x.example/p.git#egg=p",)


def test_find_links_starts_beside_the_file_where_it_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "more" / "wheels").mkdir(parents=True)
    written(tmp_path, "more/a.txt", "--find-links ./wheels\n-f https://x.example/wheels\n--no-index\n")
    found = read(tmp_path, "-r more/a.txt")
    assert found == (f"--find-links {tmp_path}/more/wheels", "--find-links https://x.example/wheels", "--no-index")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("numpy", ["numpy"]),
        ("numpy,pandas==2.2", ["numpy", "pandas==2.2"]),
        ("numpy>=1,<2, pandas[a,b]>1,!=1.5", ["numpy>=1,<2", "pandas[a,b]>1,!=1.5"]),
        ("", []),
    ],
)
def test_requirements_between_commas_are_parted_where_a_name_begins(text: str, parts: list[str]) -> None:
    assert requirements.split(text) == parts
