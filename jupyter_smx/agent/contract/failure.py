"""Build the failure of an end record: the job's own message, else its exception and facts of this host.

Beside that it has the text which SageMaker would have, as sagemaker-training writes it to ``/opt/ml/output/failure``.
"""

from __future__ import annotations

import codecs
import io
import os
import signal
from typing import TYPE_CHECKING, Any, Dict, Optional

from jupyter_smx.agent.contract import failure_command, script
from jupyter_smx.agent.system.files import safe_open
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec, FailureFields
    from jupyter_smx.agent.paths import HostInfo

LIMIT = 1024
"""Characters, as SageMaker reads of ``/opt/ml/output/failure``."""
_WITH_REMARK = LIMIT - len("AlgorithmError: ")
"""Maximum characters of the text before a remark; the controller puts a word before both."""
_MESSAGE_LIMIT = 1024
"""Bytes that SageMaker reads of ``/opt/ml/output/message``."""
_SIGKILL_EXIT_CODE = 128 + signal.SIGKILL
"""Exit code of a shell whose program was killed by SIGKILL, as the system does for lack of memory."""


def read_failure_file(ml: str) -> str:
    """Read what the job wrote of its failure, '' when it wrote nothing, or left something that is no file."""
    try:
        with safe_open.open_to_read(os.path.join(ml, "output", "failure")) as file:
            return io.TextIOWrapper(file, encoding="utf-8", errors="replace").read(LIMIT)
    except OSError:
        return ""


def format_exception(exception: Dict[str, Any], remark: str) -> str:
    """Return class and text of an exception; the host's remark follows and is never cut."""
    text = ": ".join(part for part in (exception["type"], exception["message"]) if part)
    if not remark:
        return f"{exception['type']}: {exception['message']}"[:LIMIT]
    ended = text if text.endswith((".", "!", "?")) else text + "."
    return f"{ended[: max(_WITH_REMARK - len(remark) - 1, 0)]} {remark}"


def format_signal(status: Optional[int], remark: str) -> str:
    """Return the meaning of an end by a signal, '' if only the signal is known."""
    if status is None or not os.WIFSIGNALED(status) or not remark:
        return ""
    number = os.WTERMSIG(status)
    return f"The job was ended by signal {number} ({signal.Signals(number).name}). {remark}"


def _job_message(ml: str, report: Dict[str, Any]) -> str:
    """Return what the job wrote, or what prevented its start."""
    return read_failure_file(ml) or str(report.get("failure") or "")


def format_failure(ml: str, report: Dict[str, Any], status: Optional[int], fate: str) -> str:
    """Choose the sentence that explains most; ``fate`` is the host's own finding, as that memory ran out."""
    text, exception, remark = _job_message(ml, report), report.get("exception"), str(report.get("remark") or "")
    if not text and exception:
        text = format_exception(exception, remark)
    told = fate or _format_exit_text(report, status) or format_signal(status, remark)
    return (text or told or str(report.get("refused") or ""))[:LIMIT]


def _format_exit_text(report: Dict[str, Any], status: Optional[int]) -> str:
    """Return the message with which the code exited, after its exit code if the code chose that."""
    text = str(report.get("exit_text") or "")
    if not text or status is None or not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 1:
        return text
    return f"Exit Code: {os.WEXITSTATUS(status)}. {text}"


class Facts(NamedTuple):
    """Sources of the sentence at the end of a job: request and host, its own report, and the end of its process."""

    ml: str
    spec: CompleteSpec
    place: HostInfo
    report: Dict[str, Any]
    status: Optional[int]
    fate: str = ""


def format_failure_file(facts: Facts) -> str:
    """Return the text of the failure file: the job's own, else sagemaker-training's; '' where neither wrote one.

    The drivers of SDK 3 write how their own call of the script ended; here it is the script's traceback, if there is
    one. A processing job has neither, so only its script can write the file.
    """
    status, report = facts.status, facts.report
    text = _job_message(facts.ml, report)
    exception = report.get("exception")
    if text or facts.spec["kind"] != "train" or not status or report.get("refused"):
        return text
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    if script.is_sdk3_driven(facts.spec):
        told = (report.get("traceback") or exception["traceback"]) if exception else _sdk3_last_line(facts, code)
        return str(told)[:LIMIT]
    message = str(report.get("exit_text") or "")
    if exception:
        message = format_exception(exception, str(report.get("remark") or ""))
    lines = ["ExecuteUserScriptError:", f"ExitCode {code}", f'ErrorMessage "{message}"']
    if facts.fate or code == _SIGKILL_EXIT_CODE:
        lines.append(f'ExtraInfo "OutOfMemory: {facts.fate or "a program was ended by SIGKILL (signal 9)."}"')
    lines.append(f'Command "{" ".join(failure_command.command_prefix(facts.spec, facts.place))}"')
    return "\n".join(lines)[:LIMIT]


def _sdk3_last_line(facts: Facts, code: int) -> str:
    """Return the last line of what those drivers write of a script that ended without an exception."""
    import subprocess  # noqa: PLC0415 - only a failure waits for it

    name, *words = failure_command.command_prefix(facts.spec, facts.place)
    called = [name, *(words[1:] if words[0] == "--" else words)]
    return f"subprocess.CalledProcessError: {subprocess.CalledProcessError(code, called)}"


def exit_message(ml: str) -> Optional[str]:
    """Read the exit message of a processing job, None if it is not UTF-8; a character cut at the end is left out."""
    try:
        with safe_open.open_to_read(os.path.join(ml, "output", "message")) as file:
            data = file.read(_MESSAGE_LIMIT + 1)
    except OSError:
        return ""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data[:_MESSAGE_LIMIT], final=len(data) <= _MESSAGE_LIMIT)
    except UnicodeDecodeError:
        return None


def failure_fields(facts: Facts) -> FailureFields:
    """Return the texts of a failure for the record."""
    return {
        "failure": format_failure(facts.ml, facts.report, facts.status, facts.fate),
        "reason": format_failure_file(facts),
        "message": exit_message(facts.ml) if facts.spec["kind"] == "process" else "",
    }
