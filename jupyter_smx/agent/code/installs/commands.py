"""Find commands that install packages, in lists of arguments and lines of a shell. Pure."""

from __future__ import annotations

import os
import re
import shlex
from typing import Iterator, List, Match, Sequence

UNKNOWN = "{}"
"""Stands for an argument that is known only at run time, such as ``sys.executable``."""
_FIELD = re.compile(r"\{[^{}\s]*\}|%s|%\(\w+\)s|\$\{?\w+\}?|\"\$@\"")
"""Words that are filled in later: fields of a format, and variables of a shell."""
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_SEPARATOR = re.compile(r"&&|\|\||\$\(|[;|&()\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PREFIX_WORDS = "! { command do elif else env eval exec if nice nohup sudo then time timeout until while xargs"
_PREFIXES = frozenset(_PREFIX_WORDS.split())
"""Words after which a command begins."""
_SHELLS = frozenset(("sh", "bash", "dash", "ksh", "zsh"))
_PIP = re.compile(r"pip[\d.]*(?:\{\})?")
_PIP_NAMES = frozenset(("pip", "pip3", "pip_bin", "pip_cmd", "pip_exe", "pip_path"))
"""Names of variables that hold pip's path, in small letters."""
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")
_PIP_VERBS = frozenset(("install", "uninstall"))
_UV_PIP_VERBS = frozenset(("install", "sync", "uninstall"))
_VERBS = {
    "uv": frozenset(("add", "remove", "sync")),
    "poetry": frozenset(("add", "install", "remove", "sync", "update")),
    "pipenv": frozenset(("install", "sync", "uninstall", "update")),
    "spacy": frozenset(("download",)),
}
"""Programs that install into the active environment, with the subcommands that do so."""
_PYTHON_WORDS = frozenset(("-m", "setup.py"))
_SETUP_VERBS = frozenset(("develop", "install"))
_INSTALLERS = ("pip", "uv", "spacy", "poetry", "easy_install", "setup.py")
"""Parts of the names of all programs that install; ``$PIP`` names one, too."""
_QUOTING = re.compile(r"[\\'\"]")
_MAX_QUOTED = 4096
"""Characters up to which quotes are parsed; ``shlex`` takes seconds for a literal with data."""


def is_pip(word: str) -> bool:
    """Return True if a word names pip, alone or with a folder."""
    return bool(_PIP.fullmatch(os.path.basename(word)))


def install_in_lines(text: str) -> str:
    """Return the first command of a shell text that installs packages, such as ``pip install``; "" if it has none."""
    for words in _commands(text):
        found = install_in_words(words)
        if found:
            return found
    return ""


def _commands(text: str) -> Iterator[List[str]]:
    """Yield the words of each command that names an installer."""
    if not _names_installer(text):
        return
    for line in filter(_names_installer, text.replace("\\\n", " ").split("\n")):
        for part in filter(_names_installer, _SEPARATOR.split(_COMMENT.sub("", line))):
            words = _split(part)
            if words:
                yield words


def _names_installer(text: str) -> bool:
    small = text.lower()
    return any(name in small for name in _INSTALLERS)


def _split(part: str) -> List[str]:
    if len(part) <= _MAX_QUOTED and _QUOTING.search(part):
        try:
            return shlex.split(part)
        except ValueError:  # a quote opens or closes in another part
            pass
    return part.replace('"', " ").replace("'", " ").split()


def install_in_words(words: Sequence[str]) -> str:
    """Return the command that installs packages, from the arguments of one command; "" if it does not.

    Arguments may be incomplete: :data:`UNKNOWN` stands for parts that are filled in later.
    """
    words = _without_prefix([_FIELD.sub(_field, word) for word in words])
    if not words:
        return ""
    program, rest = os.path.basename(words[0]), words[1:]
    if program in _SHELLS:
        return _in_shell_words(rest)
    if program == "-m":
        return _in_module_words(words)
    if _PYTHON.fullmatch(program) or program == UNKNOWN:
        return _in_python_words(rest)
    return _in_program_words(program, rest)


def _field(found: Match[str]) -> str:
    """Return the placeholder for an argument that is filled in later: its name may show that it is pip."""
    return unknown(found.group())


def unknown(name: str) -> str:
    """Return the placeholder for the value of a variable."""
    return "pip" if name.strip("${}").lower() in _PIP_NAMES else UNKNOWN


def _without_prefix(words: List[str]) -> List[str]:
    """Leave out variables, and words such as ``sudo`` with their options."""
    at = 0
    while at < len(words):
        word = words[at]
        is_option = at > 0 and (word.startswith("-") or word[:1].isdigit()) and word != "-m"
        # A list of unknown arguments may come before the program: launcher + ["pip", "install"].
        is_wrapped = word == UNKNOWN and len(words) > at + 1 and not _PYTHON_WORDS.intersection(words[at + 1 :])
        if not (is_option or is_wrapped or word in _PREFIXES or _ASSIGNMENT.match(word)):
            break
        at += 1
    return words[at:]


def _in_shell_words(words: Sequence[str]) -> str:
    """Read what a shell gets with ``-c``."""
    for at, word in enumerate(words):
        if word.startswith("-") and word.endswith("c"):
            return install_in_lines(" ".join(words[at + 1 :]))
    return ""


def _in_python_words(words: Sequence[str]) -> str:
    if "-m" in words:
        return _in_module_words(words[list(words).index("-m") :])
    scripts = [at for at, word in enumerate(words) if os.path.basename(word) == "setup.py"]
    if scripts and _SETUP_VERBS.intersection(words[scripts[0] + 1 :]):
        return "setup.py install"
    return ""


def _in_module_words(words: Sequence[str]) -> str:
    """Read the arguments after ``-m``; the first one is the module."""
    if len(words) < 2:  # noqa: PLR2004 - the option and a module
        return ""
    return _in_program_words(words[1].partition(".")[0], words[2:])


def _in_program_words(program: str, words: Sequence[str]) -> str:
    if program in ("easy_install", "ensurepip"):
        return program
    if is_pip(program):
        return _in_pip_words(words)
    heads = [word.split(None, 1)[0] for word in words if word.strip()]
    if program == "uv" and "pip" in heads:
        verbs = _UV_PIP_VERBS.intersection(heads[heads.index("pip") + 1 :])
        return f"uv pip {min(verbs)}" if verbs else ""
    verb = next((head for head in heads if not head.startswith("-")), "")
    return f"{program} {verb}" if verb in _VERBS.get(program, ()) else ""


def _in_pip_words(words: Sequence[str]) -> str:
    """Read the arguments of pip; if the first one is filled in later, it may be any."""
    heads = [word.split(None, 1)[0] for word in words if word.strip()]
    verb = next((head for head in heads if head in _PIP_VERBS), "")
    if verb:
        return f"pip {verb}"
    return "pip" if heads[:1] == [UNKNOWN] else ""
