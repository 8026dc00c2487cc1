"""Ranges of reads and copies: properties against slices of bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.aws.s3.forms.ranges import ByteRange, parse_copy_range, parse_range
from jupyter_smx.aws.service import AwsError

NUMBER = st.integers(0, 30)


def chosen(header: str, body: bytes) -> bytes:
    """Return the bytes that a range chooses, none where it is refused."""
    with contextlib.suppress(AwsError):
        part = parse_range(header, len(body))
        assert part is not None
        assert part.length > 0
        return body[part.start : part.stop]
    return b""


@given(st.binary(max_size=20), NUMBER, NUMBER)
def test_a_range_is_the_slice_of_its_numbers(body: bytes, first: int, last: int) -> None:
    expected = body[first : last + 1]
    if last < first:
        assert parse_range(f"bytes={first}-{last}", len(body)) is None
    else:
        assert chosen(f"bytes={first}-{last}", body) == expected


@given(st.binary(max_size=20), NUMBER)
def test_open_ranges_and_suffixes_are_slices(body: bytes, number: int) -> None:
    for header, expected in ((f"bytes={number}-", body[number:]), (f"bytes=-{number}", body[-number or len(body) :])):
        assert chosen(header, body) == expected


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "chars=0-1", "bytes=5-2"])
def test_what_is_no_single_range_is_ignored(header: str | None) -> None:
    assert parse_range(header, 10) is None


def test_a_range_of_a_copy_must_lie_in_the_source() -> None:
    assert parse_copy_range(None, 10) == ByteRange(0, 10)
    assert parse_copy_range("bytes=2-9", 10) == ByteRange(2, 10)
    for header in ("bytes=2-10", "bytes=-3", "bytes=5-", "bytes=5-2", "x"):
        with pytest.raises(AwsError):
            parse_copy_range(header, 10)
