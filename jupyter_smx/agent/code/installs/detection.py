"""Find out from its text if the code of a job installs packages. Pure.

Most scripts name no installer, which a search for a few words shows. The others are parsed, once for each content.
"""

from __future__ import annotations

import re
from functools import lru_cache

from jupyter_smx.agent.code import imports

_USER_SITE = re.compile(r"--user\b|PIP_USER")
USER_SITE = " --user"
"""End of a command whose text may ask for the user's own folder of packages."""
_PROGRAMS = {
    "pip": r"pip(?:(?<!\wpip)[\d.]*(?!\w)|(?<=ensurepip)|env\b)",
    "uv": r"uv(?<!\wuv)(?!\w)",
    "spacy": r"spacy\b",
    "poetry": r"poetry\b",
    "easy_install": r"easy_install\b",
    "setup.py": r"setup\.py\b",
}
"""Words without which a text has no command that installs."""
# Each pattern begins with its word, which a regular expression then finds as fast as `in` does.
_PATTERNS = [(word, re.compile(pattern)) for word, pattern in _PROGRAMS.items()]


def may_install(text: str) -> bool:
    """Return True if a text names an installer; most do not, and need not be parsed."""
    return any(word in text and pattern.search(text) for word, pattern in _PATTERNS)


@lru_cache(maxsize=8)
def install_in(name: str, text: str) -> str:
    """Return the command by which a file installs packages, such as ``pip install``; "" if its text shows none.

    ``name`` is that of the file: ``.py`` is Python; for other files the first line decides. A command
    whose text may ask for the user's own folder of packages ends with :data:`USER_SITE`.
    """
    return _parse(_is_python(name, text), text) if may_install(text) else ""


def _is_python(name: str, text: str) -> bool:
    if name.endswith((".py", ".ipynb")) or not name:
        return True
    first = text[:200].partition("\n")[0]
    return first.startswith("#!") and "python" in first


def _parse(is_python: bool, text: str) -> str:
    # Jobs that install nothing need neither of these.
    with imports.agent_modules():
        if is_python:
            from jupyter_smx.agent.code.installs.python_code import install_in_code as search  # noqa: PLC0415
        else:
            from jupyter_smx.agent.code.installs.commands import install_in_lines as search  # noqa: PLC0415
    found = search(text)
    return found + USER_SITE if found and _USER_SITE.search(text) else found
