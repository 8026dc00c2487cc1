"""Interpreters named by their failure: scripts that answer the question for the version and then misbehave."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 'case "$2" in -c) exec {python} "$@";; esac\n'
"""``python -I -c …`` asks for the version, ``python -I <archive> serve …`` is the agent."""

SCRIPTS = {
    "is_too_old": "echo 3 7",
    "answers_nonsense": "echo hello world again",
    "fails_when_asked": "exit 1",
    "dies_at_once": VERSION + "echo 'cannot find the moon' >&2\necho 'giving up' >&2\nexit 7",
    "tells_its_environment": VERSION + "env\nexit 1",
    "is_killed_at_once": VERSION + "kill -9 $$",
    "never_gets_ready": VERSION + "echo 'still thinking' >&2\nwhile :; do sleep 1000; done",
    "closes_its_pipe_and_stays": VERSION + 'eval "exec $6>&-"\nwhile :; do sleep 1000; done',
    "vanishes_after_the_question": 'rm -- "$0"\nexec {python} "$@"',
    "fails_on_the_second_host": VERSION + 'case "$4" in *algo-2) exit 9;; esac\nexec {python} "$@"',
}


def interpreter(folder: Path, failure: str) -> str:
    """Write the script that fails in this way and give its path."""
    path = folder / failure
    path.write_text("#!/bin/bash\n" + SCRIPTS[failure].replace("{python}", shlex.quote(sys.executable)) + "\n")
    path.chmod(0o755)
    return str(path)
