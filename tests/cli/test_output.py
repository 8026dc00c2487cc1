"""What the command writes to its streams, and to streams that are closed."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.cli.output import Console, format_for_terminal
from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    from conftest import Terminal


ERROR = UnavailableError("No answer.", cure="`%smx doctor` says why.", transient=True)


class Screen(io.StringIO):
    """A stream that a person sees."""

    def isatty(self) -> bool:
        return True


def streams(*, json: bool, stdout: io.StringIO | None = None) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = stdout or io.StringIO(), io.StringIO()
    return Console(json=json, stdout=out, stderr=err), out, err


def test_a_person_gets_the_page_and_a_program_the_document() -> None:
    output, out, _ = streams(json=False)
    output.show({"a": 1}, "one")
    assert out.getvalue() == "one\n"
    output, out, _ = streams(json=True)
    output.show({"a": 1}, "one")
    assert out.getvalue() == '{"a":1}\n'


def test_json_is_laid_out_for_a_person_and_one_line_for_a_pipe() -> None:
    output, out, _ = streams(json=True, stdout=Screen())
    output.show({"a": 1}, "one")
    assert out.getvalue() == '{\n  "a": 1\n}\n'


def test_the_log_leaves_stdout_to_the_document() -> None:
    output, out, err = streams(json=False)
    output.log("epoch 1")
    assert (out.getvalue(), err.getvalue()) == ("epoch 1", "")
    output, out, err = streams(json=True)
    output.log("epoch 1")
    assert (out.getvalue(), err.getvalue()) == ("", "epoch 1")


def test_a_sentence_begins_a_line_on_a_screen_and_adds_nothing_to_a_file() -> None:
    for stdout, expected in ((Screen(), "\nIt goes on.\nDone.\n"), (io.StringIO(), "It goes on.\nDone.\n")):
        output, _, err = streams(json=False, stdout=stdout)
        output.log("half a li")
        output.log("")
        output.info("It goes on.")
        output.info("Done.")
        assert err.getvalue() == expected


def test_what_is_said_to_a_person_is_not_said_to_a_program() -> None:
    output, _, err = streams(json=True)
    output.info("It goes on.")
    assert err.getvalue() == ""


def test_errors_name_commands_as_a_terminal_has_them() -> None:
    output, out, err = streams(json=False)
    output.error(ERROR)
    assert (out.getvalue(), err.getvalue()) == ("", "No answer. `jupyter smx doctor` says why.\n")
    output, out, err = streams(json=True)
    output.error(ERROR)
    body = json.loads(err.getvalue())
    assert (body["code"], body["cure"], body["transient"]) == (ERROR.code, "`jupyter smx doctor` says why.", True)


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("`%smx logs a -f` follows it", "`jupyter smx logs a -f` follows it"),
        ("the log says 100 %smxyz", "the log says 100 %smxyz"),
    ],
)
def test_only_commands_are_put_in_other_words(there: str, here: str) -> None:
    assert format_for_terminal(there) == here


def test_an_error_about_a_word_that_is_no_utf_8_is_json_all_the_same() -> None:
    said = io.StringIO()
    Console(json=True, stdout=io.StringIO(), stderr=said).error(SmxError("no", field="job", value="caf\udce9"))
    assert json.loads(said.getvalue())["value"] == "caf\udce9"
    assert said.getvalue().isascii()


COMMAND = (sys.executable, "-m", "jupyter_smx.cli")


@pytest.mark.parametrize(("closed", "out"), [(">&-", ""), ("2>&-", "hello\n"), ("<&-", "hello\n"), (">&- 2>&-", "")])
def test_a_closed_stream_is_written_to_by_nobody(terminal: Terminal, closed: str, out: str) -> None:
    terminal.script("hello.py", "print('hello')")
    done = terminal.run("run", "hello.py", command=["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND])
    assert (done.returncode, done.stdout) == (0, out)
    assert "Traceback" not in done.stderr
    assert ("Completed" in done.stderr) is ("2>&-" not in closed)
