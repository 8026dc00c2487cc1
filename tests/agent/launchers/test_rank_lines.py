"""Lines of ranks that speak at once, put together from mpirun's pieces."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.launchers import line_demux


def shown(*chunks: bytes) -> bytes:
    return b"".join(line_demux.merge_lines(chunks))


ZERO, ONE, ERRORS = b"[1,0]<stdout>:", b"[1,1]<stdout>:", b"[1,0]<stderr>:"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ([ZERO + b"a\n", ONE + b"b\n"], [ZERO + b"a\n", ONE + b"b\n"]),
        ([ZERO + b"done", ONE + b'["rank"]\n', ZERO + b"\n"], [ONE + b'["rank"]\n', ZERO + b"done\n"]),
        ([ZERO + b"a", ONE + b"b", ZERO + b"\n", ONE + b"\n"], [ZERO + b"a\n", ONE + b"b\n"]),
        ([ZERO + b"a", ERRORS + b"e", ZERO + b"\n", ERRORS + b"\n"], [ZERO + b"a\n", ERRORS + b"e\n"]),
        ([ZERO + b"\n", ZERO + b"\n"], [ZERO + b"\n", ZERO + b"\n"]),
        ([b" JOB MAP \n", ZERO + b"a\n", b"mpirun noticed\n"], [b" JOB MAP \n", ZERO + b"a\n", b"mpirun noticed\n"]),
        ([ZERO + b"no end", ONE + b"b\n"], [ONE + b"b\n", ZERO + b"no end\n"]),
        ([b"nothing of a rank"], [b"nothing of a rank"]),
        ([], []),
    ],
)
def test_each_rank_has_lines_of_its_own(said: list[bytes], wanted: list[bytes]) -> None:
    assert shown(*said) == b"".join(wanted)
    assert shown(b"".join(said)) == b"".join(wanted), "in one chunk as well"


def test_a_bar_that_draws_itself_anew_waits_for_no_end_of_a_line() -> None:
    shows = line_demux.merge_lines(iter([ERRORS + b"\r 10%", ERRORS + b"\r 20%", ZERO + b"a\n"]))
    assert next(shows) == ERRORS + b"\r 10%"


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    much = [ZERO + b"x" * 60_000, ONE + b"b\n"] * 3
    shows = line_demux.merge_lines(iter(much))
    assert [len(next(shows)) for _ in range(3)] == [len(ONE) + 2, len(ZERO) + 120_000, len(ONE) + 2]


@pytest.mark.parametrize("size", [60_000, 65_536, 65_537, 200_000])
def test_a_flood_is_cut_anywhere_and_torn_nowhere(size: int) -> None:
    said = [b"[1,%d]<stdout>:step %d loss=%d of rank %d\n" % (at % 2, at, at, at % 2) for at in range(20_000)]
    text = b"".join(said)
    assert shown(*(text[at : at + size] for at in range(0, len(text), size))) == text


def test_a_piece_that_is_longer_than_what_is_kept_stays_its_ranks() -> None:
    long = ZERO + b"x" * 150_000
    chunks = [*(long[at : at + 65_536] for at in range(0, len(long), 65_536)), b"y\n" + ONE + b"b\n"]
    said = shown(*chunks)
    assert said.count(b"x") == 150_000
    assert ONE + b"b\n" in said
    assert all(line.startswith((ZERO, ONE)) for line in said.splitlines())


LIMIT = 64
"""Bytes that are kept of one rank here, more than its longest line with the tag: chunks are longer, as in a flood."""


@given(
    st.lists(st.tuples(st.integers(0, 3), st.text("ab [],:<>", max_size=12)), max_size=40),
    st.integers(),
)
def test_however_it_is_cut_each_rank_said_what_it_said(lines: list[tuple[int, str]], seed: int) -> None:
    with patch.object(line_demux, "_LONGEST", LIMIT):
        said_is_what_was_said(lines, seed)


def said_is_what_was_said(lines: list[tuple[int, str]], seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - no secret, a shuffle that can be repeated
    waiting = {rank: [] for rank in range(4)}
    for rank, line in lines:
        waiting[rank] += [line.encode(), b"\n"]
    text = b""
    while any(waiting.values()):
        rank = draw.choice([rank for rank, left in waiting.items() if left])
        text += b"[1,%d]<stdout>:%s" % (rank, waiting[rank].pop(0))
    cuts = sorted(draw.randrange(len(text) + 1) for _ in range(5))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    said = shown(*chunks).splitlines(keepends=True)
    for rank in range(4):
        tag = b"[1,%d]<stdout>:" % rank
        own = [line[len(tag) :] for line in said if line.startswith(tag)]
        assert own == [line.encode() + b"\n" for one, line in lines if one == rank]
