"""The words behind ``events``, the same in a notebook and in a terminal: of which job, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.options.parser import Parser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

USAGE = "[JOB] [-f]"
HELP = "its steps as events of EventBridge, one JSON object a line; -f follows them"


def add_options(parser: Parser) -> None:
    """Let a parser take the options."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")


def read(words: Sequence[str], prog: str) -> Namespace:
    """Read the words after ``events``: ``job``, "" for the newest, and ``follow``.

    :raises ValidationError: an unknown option, or a word too many.
    """
    parser = Parser(prog=f"{prog} events", usage=f"{prog} events {USAGE}")
    parser.add_argument("job", nargs="?", default="")
    add_options(parser)
    return parser.read(words)
