"""Options that a job names for the Slurm engine with ``--engine-option``: their names and their values. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from jupyter_smx.engines.slurm import parsers
from jupyter_smx.model import duration
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = (
    *("partition", "account", "qos", "gres", "constraint", "reservation", "exclusive", "time", "words"),
    *("heterogeneous", "renew"),
)
"""Options of a job, of an instance type or of the configuration; ``words`` are more words for ``sbatch``."""
FLAG_VALUES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
RESERVED_WORDS = (
    *("job-name", "array", "wrap", "parsable", "requeue", "no-requeue", "signal", "export", "export-file"),
    *("nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "chdir", "workdir", "input", "output", "error"),
    *("wait", "hold", "clusters", "test-only", "help", "usage", "version"),
)
"""Options of ``sbatch`` that the engine sets itself, or with which it would not find the job or not start its hosts."""
_GPU_WORDS = ("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-task")
_TIME_WORDS = ("time-min", "deadline")
"""With these Slurm may give less time than the engine computes with, or remove the job."""
_MEMORY_WORDS = ("mem", "mem-per-cpu", "mem-per-gpu")
_CPU_WORDS = ("cpus-per-task", "cpus-per-gpu")
OPTION_OF_WORD = {
    **{name: name for name in ("partition", "account", "qos", "gres", "constraint", "reservation", "time")},
    **dict.fromkeys(_TIME_WORDS, "time"),
    **dict.fromkeys(_GPU_WORDS, "gres"),
    **dict.fromkeys(_MEMORY_WORDS, "memory_gib"),
    **dict.fromkeys(_CPU_WORDS, "cpus"),
}
"""Options of ``sbatch`` that would override an option of this engine, which computes with its value, and that option.

``exclusive`` is none of them: ``--exclusive=user`` has no option here, and the engine computes nothing with it.
"""
_TYPE_KEYS = ("memory_gib", "cpus")
"""Options that only an instance type has."""
_EXAMPLES = {"time": "time=2h", "gres": "gres=gpu:2"}
_WORD = re.compile(r"--([a-z][a-z0-9-]*)(=.*)?", re.DOTALL)
"""Only this form: a short option can hide its value, and a bare word would be taken as the script."""
_UNITS = re.compile(r"(\d+[dhms])+")
_SLURM_TIME = re.compile(r"\d+-\d+(:\d+){0,2}|\d+(:\d+){1,2}")


def check(options: Mapping[str, str]) -> None:
    """Check the values that Slurm does not check itself.

    :raises RefusedError: names the option and the cure.
    """
    if "exclusive" in options:
        is_exclusive(options["exclusive"])
    if "heterogeneous" in options:
        is_heterogeneous(options)
    if "renew" in options:
        is_renewed(options)
    if "time" in options:
        parse_time(options["time"])
    if "words" in options:
        split_words(options["words"])


def is_exclusive(text: str) -> bool:
    """Read the value of ``exclusive``.

    :raises RefusedError: it is neither true nor false.
    """
    return _parse_flag("exclusive", text)


def is_heterogeneous(options: Mapping[str, str]) -> bool:
    """Return True if the groups of a cluster may be the components of one job, which is so without the option.

    :raises RefusedError: the value is neither true nor false.
    """
    return _parse_flag("heterogeneous", options.get("heterogeneous") or "true")


def is_renewed(options: Mapping[str, str]) -> bool:
    """Return True if a pool goes on in another allocation after the end of its own.

    :raises RefusedError: the value is neither true nor false.
    """
    return _parse_flag("renew", options.get("renew", ""))


def _parse_flag(name: str, text: str) -> bool:
    value = FLAG_VALUES.get(text.strip().lower())
    if value is None:
        raise _value_error(name, text, "It is true or false.", f"For example --engine-option {name}=true.")
    return value


def parse_time(text: str) -> float:
    """Read a time limit in seconds: ``2h``, or as Slurm writes it, ``1-12:00:00``.

    A plain number is refused: Slurm counts minutes, and other options of a job count seconds.

    :raises RefusedError: it has another form, or is zero.
    """
    word = text.strip().lower()
    seconds = 0.0
    if _UNITS.fullmatch(word):
        seconds = float(duration.parse(word, "time"))
    elif _SLURM_TIME.fullmatch(word):
        seconds = parsers.parse_duration(word) or 0.0
    if not seconds:
        rule = "The form is 90m, 2h, 1d, or D-HH:MM:SS and HH:MM:SS as in Slurm."
        raise _value_error("time", text, rule, "For example --engine-option time=2h.")
    return seconds


def split_words(text: str) -> list[str]:
    """Split more words for ``sbatch``, each ``--NAME`` or ``--NAME=VALUE``.

    :raises RefusedError: a word has another form, or the engine sets this option itself or by an option of its own.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _words_error(text, f"A shell cannot read it: {error}.") from None
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise _words_error(text, f"{word!r} has another form than --NAME or --NAME=VALUE.")
        # sbatch takes the beginning of a name for the name.
        reserved = next((name for name in RESERVED_WORDS if name.startswith(match[1])), None)
        if reserved is not None:
            raise _words_error(text, f"The engine sets --{reserved} itself.")
        overridden = next((name for name in OPTION_OF_WORD if name.startswith(match[1])), None)
        if overridden is not None:
            raise _override_error(text, overridden, OPTION_OF_WORD[overridden])
    return words


def _override_error(text: str, word: str, option: str) -> RefusedError:
    """Return the error of a word that would override an option, which it names."""
    if option in _TYPE_KEYS:
        rule = f"The option {option} of an instance type sets --{word}."
        return _words_error(text, rule, f"Use a type with another {option}, or define one in c.SlurmEngine.node_types.")
    example = _EXAMPLES.get(option, f"{option}=NAME")
    rule = f"The option {option} sets --{word}."
    if word in _TIME_WORDS:
        rule = f"The option {option} sets the time limit, which --{word} may change."
    return _words_error(text, rule, f"Use --engine-option {example}.")


def _words_error(text: str, rule: str, cure: str = "") -> RefusedError:
    return _value_error("words", text, rule, cure or "For example --engine-option words=--mail-type=END.")


def _value_error(name: str, value: str, rule: str, cure: str) -> RefusedError:
    return RefusedError(
        f"--engine-option {name}: {value!r} is not a value of Slurm's engine.",
        field="engine_options",
        value=f"{name}={value}",
        rule=rule,
        cure=cure,
    )
