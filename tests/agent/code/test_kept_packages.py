"""Requirements that jobs of an image keep: named by all that pip reads, whole as soon as they have their name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_smx.agent.code.requirements import kept_packages


def names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.parametrize(
    "line",
    [
        *("-e /code", "--find-links /code/wheels", "-f wheels", "./alpha", "/code/a.whl", "a @ file:///code/a.whl"),
        *("-e git+https://host/a", "alpha @ git+https://host/a@main", "git+ssh://host/a", "alpha # content 123"),
    ],
)
def test_lines_with_files_are_not_kept(line: str) -> None:
    assert kept_packages.name_of(["alpha", line], {}) == ""


@pytest.mark.parametrize("name", ["PIP_FIND_LINKS", "PIP_CONSTRAINT"])
def test_variables_with_files_are_not_kept(name: str) -> None:
    assert kept_packages.name_of(["alpha"], {name: "/wheels"}) == ""


def test_a_set_is_named_by_its_lines_and_by_the_variables_of_pip() -> None:
    first = kept_packages.name_of(["alpha==1", "-c beta<2"], {"HOME": "/tmp", "PIP_INDEX_URL": "https://a"})  # noqa: S108
    assert first == kept_packages.name_of(["alpha==1", "-c beta<2"], {"PIP_INDEX_URL": "https://a", "X": "1"})
    others = [
        kept_packages.name_of(["alpha==1"], {"PIP_INDEX_URL": "https://a"}),
        kept_packages.name_of(["alpha==1", "-c beta<2"], {"PIP_INDEX_URL": "https://b"}),
        kept_packages.name_of(["alpha==2", "-c beta<2"], {"PIP_INDEX_URL": "https://a"}),
    ]
    assert len({first, *others}) == 4
    assert all(name.isalnum() for name in (first, *others))


def made(folder: Path) -> tuple[str, str]:
    """Make an environment as virtual_environment does, with a package and a program."""
    packages, programs = folder / "lib" / "site-packages", folder / "bin"
    (packages / "alpha").mkdir(parents=True)
    (packages / "alpha" / "__init__.py").write_text("version = '1'\n")
    (packages / "_jupyter_smx_image.pth").write_text("import site\n")
    programs.mkdir()
    (programs / "alpha").write_text("#!/opt/ml/requirements/bin/python\n")
    (programs / "alpha").chmod(0o755)
    (programs / "python").symlink_to("/usr/bin/python3")
    return str(packages), str(programs)


@pytest.mark.parametrize(
    ("paths", "is_kept"),
    [
        (["alpha/__init__.py", "../../bin/alpha", "alpha/deep/../x.py"], True),
        (["alpha/__init__.py", "../../lib/libalpha.so"], False),
        (["../../share/jupyter/kernel.json"], False),
        (["../../binaries/alpha"], False),
    ],
)
def test_a_set_with_files_beside_the_packages_is_not_kept(tmp_path: Path, paths: list[str], *, is_kept: bool) -> None:
    packages, programs = made(tmp_path)
    record = Path(packages, "alpha-1.dist-info", "RECORD")
    record.parent.mkdir()
    record.write_text("".join(f"{path},sha256=x,1\n" for path in paths))
    assert kept_packages.can_keep(packages, programs) is is_kept


def test_a_kept_set_has_the_packages_and_programs_and_nothing_of_the_job(tmp_path: Path) -> None:
    top = tmp_path / "kept"
    top.mkdir()
    assert kept_packages.find(str(top), "a1") is None
    with kept_packages.lock(str(top), "a1") as is_locked:
        assert is_locked
        kept_packages.keep(str(top), "a1", *made(tmp_path / "home"))
    os.utime(top / "a1.lock", (1.0, 1.0))
    found = kept_packages.find(str(top), "a1")
    assert found is not None
    assert names(found.packages) == ["alpha"]
    assert names(found.programs) == ["alpha"]
    assert Path(found.programs, "alpha").stat().st_mode & 0o777 == 0o555
    assert Path(found.packages, "alpha/__init__.py").stat().st_mode & 0o222 == 0
    assert (top / "a1.lock").stat().st_mtime > 1.0, "its use is recorded"
    assert names(top) == ["a1", "a1.lock"]


def test_a_copy_that_fails_leaves_no_part(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-packages"):
        kept_packages.keep(str(tmp_path), "a1", str(tmp_path / "no-packages"), str(tmp_path / "no-bin"))
    assert names(tmp_path) == []
    assert kept_packages.find(str(tmp_path), "a1") is None


def test_a_part_of_a_job_that_was_killed_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept" / "a1.part" / "packages").mkdir(parents=True)
    kept_packages.keep(str(tmp_path / "kept"), "a1", *made(tmp_path / "home"))
    assert names(tmp_path / "kept") == ["a1"]


def test_a_folder_that_cannot_be_written_is_not_locked(tmp_path: Path) -> None:
    with kept_packages.lock(str(tmp_path / "gone"), "a1") as is_locked:
        assert not is_locked
