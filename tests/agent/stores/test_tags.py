"""What tells objects apart: tags at once, times only when nothing else can have been written at the same one."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jupyter_smx.agent.stores import objects

NOW = 1_767_323_045.0
"""03:04:05 on 2 January 2026."""
UTC = dt.timezone.utc


@pytest.mark.parametrize(
    ("info", "tag"),
    [
        ({"ETag": '"abc"', "LastModified": "new"}, 'ETag="abc"'),
        ({"etag": "CAE=", "md5Hash": "x"}, "etag=CAE="),
        ({"ETag": "", "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}, "Last-Modified=Thu, 01 Jan 2026 00:00:00 GMT"),
        ({"mtime": 17.5, "size": 3}, "mtime=17.5"),
        ({"mtime": "the day before"}, ""),
        ({"modify": "Jan 02 03:04"}, ""),
        ({"size": 3, "name": "x", "mtime": None}, ""),
    ],
)
def test_the_best_of_what_a_store_says_is_the_tag(info: dict[str, Any], tag: str) -> None:
    assert objects.change_tag(info, NOW, inside=False) == tag


def test_inside_of_an_archive_only_sums_tell() -> None:
    assert objects.change_tag({"CRC": 12, "mtime": 1}, NOW, inside=True) == "CRC=12"
    assert objects.change_tag({"mtime": 1, "chksum": 2}, NOW, inside=True) == ""


WAYS = {
    "the web": lambda second: f"Fri, 02 Jan 2026 03:04:{second:02} GMT",
    "FTP": lambda second: f"202601020304{second:02}",
    "FTP with parts of a second": lambda second: f"202601020304{second:02}.250",
    "seconds": lambda second: NOW - 5 + second,
    "milliseconds": lambda second: (NOW - 5 + second) * 1000,
    "ISO 8601": lambda second: f"2026-01-02T03:04:{second:02}Z",
    "a time of Python's": lambda second: dt.datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC),
    "one without a zone": lambda second: dt.datetime(2026, 1, 2, 3, 4, second),  # noqa: DTZ001 - as fsspec gives it
}


@pytest.mark.parametrize("way", WAYS)
def test_when_an_object_was_written_is_read_however_its_store_says_it(way: str) -> None:
    assert objects.modified_time({"ETag": "x", "modify": WAYS[way](5)}) == NOW
    assert objects.modified_time({"ETag": "x", "modify": None}) is None


@pytest.mark.parametrize("way", WAYS)
def test_a_time_that_another_write_could_still_have_is_no_tag(way: str) -> None:
    believed = {
        second: objects.change_tag({"mtime": WAYS[way](second)}, NOW, inside=False) != "" for second in (2, 3, 4, 5, 30)
    }
    assert believed == {2: True, 3: True, 4: False, 5: False, 30: False}
