"""What of a job's text reaches a terminal, and what a file gets."""

from __future__ import annotations

import io

import pytest

from jupyter_smx.cli.output import Console
from jupyter_smx.cli.terminal_filter import TerminalFilter, clean_text
from jupyter_smx.model.errors import SmxError

TITLE = "\x1b]0;root@prod\x07"
LINK = "\x1b]8;;https://other.example/\x1b\\docs\x1b]8;;\x1b\\"
HOSTILE = f"{TITLE}a\x1b[31mred\x1b[0m {LINK}\x1b[2J\x1b[H\u202etxt.exe\u2069\r\x9b5A 10 %\n"
CLEAN = "a\x1b[31mred\x1b[0m docstxt.exe\r 10 %\n"


class Screen(io.StringIO):
    """A stream that a person sees."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\r 50 %\n", "plain\ttext\r 50 %\n"),
        ("Downloading 100 %\r\x1b[KDone\x1b[2K\n", "Downloading 100 %\r\x1b[KDone\x1b[2K\n"),
        (
            "\x1b[1;38;5;208mbold\x1b[m \x1b[38:2::1:2:3mtrue\x1b[0m",
            "\x1b[1;38;5;208mbold\x1b[m \x1b[38:2::1:2:3mtrue\x1b[0m",
        ),
        (HOSTILE, CLEAN),
        ("\x1b[>4;2m\x1b[?25l\x1b[6n\x1b[1;1Hx", "x"),
        ("\x1bP1$qm\x1b\\\x1b_Gi=1;AAAA\x1b\\\x1b^p\x9c\x90q\x9cx", "x"),
        ("\x1bc\x1b7\x1b(B\x1b#8x\x08\x07\x00\x0e\x7f\x84", "x"),
        ("\x1b]0;never closed\nnext line", "\nnext line"),
        ("\x1b]0;broken\x1b[31mred", "\x1b[31mred"),
        ("שלום and مرحبا", "שלום and مرحبا"),
    ],
)
def test_a_terminal_gets_colours_and_carriage_returns_alone(text: str, shown: str) -> None:
    assert clean_text(text) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_sequence_that_two_pieces_share_is_removed(size: int) -> None:
    log = TerminalFilter()
    pieces = [HOSTILE[at : at + size] for at in range(0, len(HOSTILE), size)]
    assert "".join(map(log.clean, pieces)) == CLEAN


def test_an_endless_sequence_is_not_collected() -> None:
    log = TerminalFilter()
    shown = [
        log.clean(piece) for piece in ["\x1b]52;c;", *["A" * 1000] * 100, "\x1b", "\\done ", "\x1b[", "1" * 1000, "m"]
    ]
    assert "".join(shown) == "done m"


def test_a_terminal_is_shown_a_clean_log_and_a_file_gets_its_bytes() -> None:
    for stdout, expected in ((Screen(), CLEAN), (io.StringIO(), HOSTILE)):
        output = Console(json=False, stdout=stdout, stderr=io.StringIO())
        output.log(HOSTILE[:3])
        output.log(HOSTILE[3:])
        assert stdout.getvalue() == expected


def test_sentences_and_pages_that_quote_a_job_are_clean_on_a_terminal() -> None:
    for make, expected in ((Screen, "No x.\n"), (io.StringIO, f"No {TITLE}x.\n")):
        stdout, stderr = make(), make()
        output = Console(json=False, stdout=stdout, stderr=stderr)
        output.show({}, f"No {TITLE}x.")
        output.info(f"No {TITLE}x.")
        output.error(SmxError(f"No {TITLE}x."))
        assert (stdout.getvalue(), stderr.getvalue()) == (expected, expected * 2)
