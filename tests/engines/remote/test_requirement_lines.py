"""Lines of requirements as another machine reads them, and the names that pip and uv have for that machine."""

from __future__ import annotations

import pytest

from jupyter_smx.engines.remote import requirement_lines
from jupyter_smx.engines.remote.wheels import Base, pip_platform, uv_platform

WHEEL = {"/home/me/pkg": "pkg-1.0-py3-none-any.whl", "/home/me/my pkg": "my.whl"}


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("/home/me/pkg # content 0123456789ab", "{wheels}/pkg-1.0-py3-none-any.whl"),
        ("/home/me/my pkg # content 0123456789ab", "{wheels}/my.whl"),
        ("/home/me/pkg[fast,gpu] # content 0123456789ab", "{wheels}/pkg-1.0-py3-none-any.whl[fast,gpu]"),
        (
            "/home/me/pkg ; python_version < '3.12' # content 0123456789ab",
            "{wheels}/pkg-1.0-py3-none-any.whl ; python_version < '3.12'",
        ),
        (
            "pkg[fast] @ file:///home/me/pkg ; sys_platform == 'linux' # content 0123456789ab",
            "pkg[fast] @ file://{wheels}/pkg-1.0-py3-none-any.whl ; sys_platform == 'linux'",
        ),
        ("numpy>=2 ; python_version < '3.12'", None),
        ("pkg @ https://example.org/pkg-1.0.tar.gz", None),
        ("pkg @ git+https://example.org/pkg.git", None),
        ("--find-links /home/me/wheels", None),
        ("-c numpy<2", None),
    ],
)
def test_a_line_with_a_path_of_this_machine_names_the_file_that_is_sent(line: str, there: str | None) -> None:
    assert requirement_lines.local_paths([line]) == ([] if there is None else [path for path in WHEEL if path in line])
    assert requirement_lines.replace_paths([line], WHEEL) == [line if there is None else there]


INDEXES = ("--index-url https://me:${TOKEN}@one/simple", "--extra-index-url=https://two", "--extra-index-url https://3")


def test_options_about_indexes_are_told_from_other_lines() -> None:
    lines = (*INDEXES, "--no-binary numpy", "numpy", "-f /here")
    assert requirement_lines.index_lines(lines) == [*INDEXES, "-f /here"]
    assert requirement_lines.without_indexes(lines) == ["--no-binary numpy", "numpy"]
    assert requirement_lines.has_local_index(lines)
    assert not requirement_lines.has_local_index((*INDEXES, "--find-links https://example.org/wheels"))


def test_options_about_indexes_are_variables_for_commands_of_uv_that_read_no_file() -> None:
    assert requirement_lines.index_variables((*INDEXES, "--no-index", "-f /one", "-f /two"), {"TOKEN": "s3cret"}) == {
        "UV_INDEX_URL": "https://me:s3cret@one/simple",
        "UV_EXTRA_INDEX_URL": "https://two https://3",
        "UV_FIND_LINKS": "/one,/two",
        "UV_NO_INDEX": "1",
    }


def test_only_variables_that_lines_name_are_sent() -> None:
    environ = {"TOKEN": "s3cret", "OTHER": "other"}
    assert requirement_lines.variables([*INDEXES, "${MISSING}", "$OTHER"], environ) == {"TOKEN": "s3cret"}


def tags(base: Base) -> list[str]:
    return [word for word in pip_platform(base) if "_" in word]


def test_pip_gets_every_tag_that_the_c_library_of_the_machine_runs() -> None:
    old = Base(python="", version="3.9.2", platform="linux-x86_64", libc="glibc 2.17")
    assert pip_platform(old)[:4] == ["--python-version", "3.9.2", "--implementation", "cp"]
    assert tags(old)[:3] == ["manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_16_x86_64"]
    assert {"manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"} < {*tags(old)}
    assert "manylinux_2_18_x86_64" not in tags(old)
    arm = Base(python="", version="3.12.1", platform="linux-aarch64", libc="glibc 2.36")
    assert "manylinux_2_36_aarch64" in tags(arm)
    musl = Base(python="", version="3.12.1", platform="linux-x86_64")
    assert tags(musl) == ["musllinux_1_2_x86_64", "musllinux_1_1_x86_64", "linux_x86_64"]
    assert tags(Base(python="", version="3.12.1", platform="macosx-11.0-arm64")) == ["macosx_11_0_arm64"]


@pytest.mark.parametrize(
    ("platform", "libc", "name"),
    [
        ("linux-x86_64", "glibc 2.36", ["x86_64-manylinux_2_28"]),
        ("linux-aarch64", "glibc 2.17", ["aarch64-manylinux_2_17"]),
        ("linux-x86_64", "", ["x86_64-unknown-linux-musl"]),
        ("linux-ppc64le", "glibc 2.36", []),
    ],
)
def test_uv_gets_the_name_that_it_has_for_the_machine(platform: str, libc: str, name: list[str]) -> None:
    assert uv_platform(Base(python="", version="3.12.1", platform=platform, libc=libc))[1:] == name
