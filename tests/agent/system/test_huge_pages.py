"""Which memory a zygote collapses into huge pages, and that its jobs have them."""

from __future__ import annotations

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
    not huge_pages.can_collapse(), reason="Linux before 6.1, or its administrator allows no huge pages"
)


def test_only_writable_private_memory_without_a_file_is_collapsed() -> None:
    assert huge_pages.private_areas(MAPS) == [
        Area(0x55F3CF4B8000, 0x55F3CF6B9000),
        Area(0x7F0000000000, 0x7F0000400000),
        Area(0x7F0000400000, 0x7F0000800000),
    ]


def test_parts_of_an_area_are_whole_huge_pages_that_are_in_use() -> None:
    empty = 5 * MIB
    area = Area(MIB, 12 * MIB + 4096)
    found = huge_pages.full_areas(area, MIB, lambda page: not page.begin <= empty < page.end)
    assert list(found) == [Area(MIB, 5 * MIB), Area(6 * MIB, 12 * MIB)]
    assert list(huge_pages.full_areas(Area(4096, 2 * MIB - 4096), MIB, lambda _page: True)) == []
    assert list(huge_pages.full_areas(area, MIB, lambda _page: False)) == []


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
