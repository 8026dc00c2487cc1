"""Which memory a zygote collapses into huge pages, and that its jobs have them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.resources import huge_pages
from jupyter_smx.agent.system.resources.huge_pages import Area

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

MIB = 1 << 20
MAPS = """\
55f3cf4b8000-55f3cf6b9000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000400000-7f0000800000 rw-p 00000000 00:00 0 \n\
7f0000800000-7f0000c00000 r--p 00000000 00:00 0
7f0000c00000-7f0001000000 rw-s 00000000 00:01 42                         /dev/zero (deleted)
7f0001000000-7f0001400000 rw-p 00001000 fe:00 1234                       /usr/lib/libpython3.11.so.1.0
7ffd45b0f000-7ffd45b30000 rw-p 00000000 00:00 0                          [stack]
"""
needs_huge_pages = pytest.mark.skipif(
    not huge_pages.page_size(), reason="Linux before 6.1, or its administrator allows no huge pages"
)


def test_only_writable_private_memory_without_a_file_is_collapsed() -> None:
    assert huge_pages.private_areas(MAPS) == [
        Area(0x55F3CF4B8000, 0x55F3CF6B9000),
        Area(0x7F0000000000, 0x7F0000400000),
        Area(0x7F0000400000, 0x7F0000800000),
    ]


def test_the_windows_of_areas_are_whole_huge_pages_and_the_largest_area_is_last() -> None:
    large, small = Area(MIB, 300 * MIB + 4096), Area(400 * MIB - 4096, 402 * MIB)
    assert list(huge_pages.windows([large, small], MIB)) == [
        Area(400 * MIB, 402 * MIB),
        Area(MIB, 257 * MIB),
        Area(257 * MIB, 300 * MIB),
    ]
    assert list(huge_pages.windows([Area(4096, 2 * MIB - 4096)], MIB)) == []


def test_parts_of_a_window_are_huge_pages_that_are_in_use() -> None:
    window, pages = Area(MIB, 12 * MIB), MIB // 4096
    empty, full = bytes(pages), b"\x01" * pages
    unused = b"\x02" * pages  # bits that have no meaning
    few, many = b"\x01" * 200 + bytes(pages - 200), bytes(20) + b"\x03" * (pages - 20)
    states = full * 4 + empty + full + few + many + full + unused + full
    assert list(huge_pages.full_areas(window, MIB, states)) == [
        Area(MIB, 5 * MIB),
        Area(6 * MIB, 7 * MIB),
        Area(8 * MIB, 10 * MIB),
        Area(11 * MIB, 12 * MIB),
    ]
    assert list(huge_pages.full_areas(window, MIB, full * 11)) == [window]
    assert list(huge_pages.full_areas(window, MIB, empty * 11)) == []
    assert list(huge_pages.full_areas(window, MIB, b"")) == [], "the kernel refused"


@needs_huge_pages
def test_no_memory_is_looked_at_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_BUDGET", 0)
    monkeypatch.setattr(huge_pages, "_page_states", lambda *_what: pytest.fail("it looks"))
    huge_pages.collapse()


RESERVES = """\
import ctypes, mmap
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import huge_pages
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
process.prctl(41, 1)  # PR_SET_THP_DISABLE: written in small pages whatever the system's setting is
data = mmap.mmap(-1, 8 << 20, flags=private)
data.write(b"x" * (8 << 20))
process.prctl(41, 0)
reserved = mmap.mmap(-1, 256 << 30, flags=private | 0x4000)  # MAP_NORESERVE
huge_pages.collapse()
where = ctypes.addressof(ctypes.c_char.from_buffer(data))
for row in open("/proc/self/smaps"):
    words = row.split()
    if "-" in words[0]:
        area = range(*(int(end, 16) for end in words[0].split("-")))
    elif words[0] == "AnonHugePages:" and where in area:
        print(words[1])
"""


@needs_huge_pages
def test_reserved_address_space_keeps_no_memory_from_being_collapsed() -> None:
    said = subprocess.run([sys.executable, "-c", RESERVES], capture_output=True, text=True, check=True)
    assert int(said.stdout) << 10 >= 4 * MIB


@needs_huge_pages
def test_a_job_shares_the_huge_pages_of_its_preloads(start_agent: Callable[..., Agent], tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    (folder / "installed-1.0.dist-info").mkdir(parents=True)
    (folder / "installed-1.0.dist-info" / "RECORD").write_text("large.py,,")
    (folder / "installed-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    (folder / "large.py").write_text("data = b'x' * (32 << 20)\n")
    agent = start_agent(preload=["large"], environment={"PYTHONPATH": str(folder)})
    if agent.greeting["preload"]["pending"]:
        agent.client.event("preload")
    shared = agent.json(
        "import json, re\n"
        "sizes = re.findall('AnonHugePages: +([0-9]+) kB', open('/proc/self/smaps').read())\n"
        "import large\n"
        "print(json.dumps([sum(map(int, sizes)) << 10, large.data == b'x' * (32 << 20)]))"
    )
    assert shared[0] >= 24 * MIB
    assert shared[1]
