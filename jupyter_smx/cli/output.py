"""Output of a subcommand: pages as text, or one JSON document on stdout and JSON errors on stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, TextIO

import msgspec
from msgspec.structs import replace

from jupyter_smx.cli.conventions import PROG
from jupyter_smx.cli.terminal_filter import TerminalFilter, clean_text
from jupyter_smx.model.errors import ErrorBody, SmxError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTEBOOK_PREFIX, _TERMINAL_PREFIX = "`%smx ", f"`{PROG} "
"""Messages of all layers spell commands for a notebook; a terminal has another spelling."""


class Console:
    """Standard output and standard error of one run of the command; ``json`` chooses the form."""

    def __init__(self, *, json: bool, stdout: TextIO, stderr: TextIO) -> None:
        self.json = json
        self._stdout = stdout
        self._stderr = stderr
        self._in_line = False
        self._log_filter = TerminalFilter() if (stderr if json else stdout).isatty() else None

    def show(self, document: object, text: str) -> None:
        """Write the answer: ``text`` for people, or ``document`` (a struct, or a dict of such) as JSON."""
        page = self._encode(document) if self.json else _clean_for(self._stdout, format_for_terminal(text))
        self._write(self._stdout, f"{page}\n")

    def write_line(self, document: Mapping[str, object]) -> None:
        """Write one line of a stream as a JSON line."""
        self._write(self._stdout, f"{msgspec.json.encode(document).decode()}\n")

    def log(self, text: str) -> None:
        """Write a piece of a job's log; with JSON it goes to stderr, since stdout belongs to the document.

        A terminal gets no control sequences but colours and what clears a line. A file or a pipe gets the log as it is.
        """
        text = self._log_filter.clean(text) if self._log_filter else text
        self._write(self._stderr if self.json else self._stdout, text)
        self._in_line = not text.endswith("\n") if text else self._in_line

    def info(self, sentence: str) -> None:
        """Print progress for a person on stderr; with JSON output print nothing."""
        if self.json:
            return
        # Where both go to one screen, a log that ended within a line would have the sentence at its end.
        begin = "\n" if self._in_line and self._stdout.isatty() else ""
        self._in_line = False
        self._write(self._stderr, f"{begin}{_clean_for(self._stderr, format_for_terminal(sentence))}\n")

    def error(self, error: SmxError) -> None:
        """Write an error on stderr: its sentence, or its :class:`ErrorBody`."""
        if self.json:
            message = self._encode(_format_body(error.body()))
        else:
            message = _clean_for(self._stderr, format_for_terminal(str(error)))
        self._write(self._stderr, f"{message}\n")

    def _encode(self, document: object) -> str:
        try:
            encoded = msgspec.json.encode(document)
        except UnicodeEncodeError:  # a word of the line was no UTF-8, and an error repeats it
            return json.dumps(msgspec.to_builtins(document))
        return (msgspec.json.format(encoded, indent=2) if self._stdout.isatty() else encoded).decode()

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            _drop(stream)
            raise
        except OSError as error:
            _drop(stream)
            raise SmxError(f"The output cannot be written: {error.strerror}.", field="stdout") from error


def _clean_for(stream: TextIO, text: str) -> str:
    """Return the text; without control sequences if the stream is a terminal, since it may quote a job."""
    return clean_text(text) if stream.isatty() else text


def format_for_terminal(sentence: str) -> str:
    """Format commands as they are typed in a terminal."""
    return sentence.replace(_NOTEBOOK_PREFIX, _TERMINAL_PREFIX)


def _format_body(body: ErrorBody) -> ErrorBody:
    return replace(
        body,
        message=format_for_terminal(body.message),
        rule=format_for_terminal(body.rule),
        cure=format_for_terminal(body.cure),
    )


def _drop(stream: TextIO) -> None:
    """Discard what is still buffered, so that the interpreter does not fail on it again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open_devnull() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def open_standard(*, json: bool) -> Console:
    """Use the process's own streams; a letter that their encoding lacks is escaped, never an error."""
    # A stream that the caller closed is None. It gets no output, and no file of ours gets its number.
    stdout, stderr = (stream or _open_devnull() for stream in (sys.stdout, sys.stderr))
    for stream in (stdout, stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    return Console(json=json, stdout=stdout, stderr=stderr)
