"""Errors of images whose Python, user or entry point cannot run hosts: what happened, why, and what to do. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.engines.docker.daemon.error_patterns import ErrorPattern, first_match
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.python_version import MIN_PYTHON
from jupyter_smx.model.text import format_duration, format_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.engines.docker.images.image_config import ContainerReport

_MAX_FOLDERS = 3
_SHELL_FORM = ("sh", "-c")
_ENTRYPOINT_RULES = (
    ErrorPattern(
        ("read-only file system",),
        "The image stays as it is: hosts can write only to /opt/ml, /tmp and /dev/shm.",
        "Let it write to /tmp, or do this when you build the image.",
    ),
    ErrorPattern(
        ("operation not permitted", "must be run as root"),
        "Hosts have no capabilities, so that an entry point cannot change its user or the owner of files.",
        "Set USER in the image, add --user image, and let the entry point do without root's rights.",
    ),
    ErrorPattern(
        ("name resolution", "network is unreachable", "could not resolve"),
        "It is tried once for each image, in a container without a network.",
        "Let it go on without a network.",
    ),
    ErrorPattern(
        ("/opt/ml/.*no such file",),
        "A host has an /opt/ml of its own, in which no file of the image is when the entry point starts.",
        "Copy what it needs to another folder, as /app, when you build the image.",
    ),
)
"""Causes of a failed entry point, by what it wrote."""


class ImageProblem(Struct, frozen=True):
    """What all errors of an image need: its name in the user's words, and the daemon's own program."""

    image: str
    program: str

    def no_python(self, seen: Mapping[tuple[int, str], list[str]], candidates: Sequence[str]) -> RefusedError:
        """Return the error for an image without a usable Python; ``seen`` has programs by exit code and output."""
        failed = next((words[0] for (code, _said), words in seen.items() if code), "")
        found = "; ".join(f"{format_list(words, most=len(words))}: {said}" for (_code, said), words in seen.items())
        return RefusedError(
            f"image: {self.image!r} has no Python that can run hosts"
            + (f" ({found})." if found else f" (none of {', '.join(candidates)} is there)."),
            field="image",
            value=self.image,
            rule=f"An agent needs only Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer.",
            cure=f"{self.program} run --rm --entrypoint {failed} {self.image} -c 'import ctypes, zlib' shows "
            "details. Variables of the image, e.g. PYTHONHOME, may be for another Python."
            if failed
            else "Use an image with Python on its PATH, or add it: RUN apt-get install -y python3.",
        )

    def closed_python(self, word: str, user: str, report: ContainerReport, *, can_follow: bool) -> RefusedError:
        """Return the error for a Python that the user of jobs cannot reach, and the image's own user can."""
        owner = report.user.name or report.user.numbers() if report.user else "the image's own user"
        closed = format_list(report.closed, most=_MAX_FOLDERS)
        where = f": {closed} {'is' if len(report.closed) == 1 else 'are'} closed to other users" if closed else ""
        opened = f"RUN chmod o+x {' '.join(map(shlex.quote, report.closed))}" if closed else "RUN chmod -R o+rX FOLDER"
        follow = "Add --user image to run as that user. Or open" if can_follow else "Open"
        return RefusedError(
            f"image: {word} of {self.image!r} can be used by {owner}, the image's user, and not by {user}, the user "
            f"of jobs{where}.",
            field="image",
            value=self.image,
            rule=f"Jobs run as {user} unless they follow the USER of their image.",
            cure=f"{follow} it to all users when you build the image: {opened}.",
        )

    def unknown_user(self) -> RefusedError:
        """Return the error for an image whose container did not report its user."""
        return RefusedError(
            f"--user: the user of {self.image!r} is unknown: Python in it reported nothing about itself.",
            field="user",
            value="image",
            rule="The files of a job belong to its user.",
            cure="Leave out --user image, or check that the image's entry point writes no more after it starts Python.",
        )

    def unowned_user(self, user: str, controller: str) -> RefusedError:
        """Return the error for an image whose user cannot own the host's folder here."""
        return RefusedError(
            f"--user: jobs of {self.image!r} cannot run as its user {user}.",
            field="user",
            value="image",
            rule=f"The files of a job belong to its user, and here they can belong to {controller} only. A controller "
            "of root with a daemon of root can give them to each user.",
            cure=f"Use an image whose USER is {controller}, e.g. {self.program} build with USER {controller}, or leave "
            "out --user image.",
        )

    def entrypoint_ended(self, entrypoint: Sequence[str], code: int, said: str) -> RefusedError:
        """Return the error for an entry point that ended and did not start the Python of hosts."""
        return self._entrypoint(entrypoint, f"ended with exit code {code} and did not start Python ({said})")

    def entrypoint_failed(self, entrypoint: Sequence[str], message: str) -> RefusedError:
        """Return the error for an entry point that the daemon cannot start."""
        return self._entrypoint(entrypoint, f"cannot be started ({message})")

    def entrypoint_timeout(self, entrypoint: Sequence[str], seconds: float) -> RefusedError:
        """Return the error for an entry point that does not come to its arguments."""
        return self._entrypoint(entrypoint, f"did not start Python within {format_duration(seconds)}")

    def _entrypoint(self, entrypoint: Sequence[str], what: str) -> RefusedError:
        reason = first_match(_ENTRYPOINT_RULES, what)
        rule = "Hosts start through the image's ENTRYPOINT, which has to run the program in its arguments."
        cure = 'End it with exec "$@".'
        if reason is not None:
            rule, cure = reason.rule, reason.cure
        elif (entrypoint[0].rpartition("/")[2][-2:], *entrypoint[1:2]) == _SHELL_FORM:
            rule = f"{rule} A command after {entrypoint[1]} of a shell gets no arguments."
            cure = 'Write ENTRYPOINT as a list without a shell, as ["/entry.sh"], and end that program with exec "$@".'
        return RefusedError(
            f"--entrypoint: {shlex.join(entrypoint)} of {self.image!r} {what}.",
            field="entrypoint",
            value="image",
            rule=rule,
            cure=f"{cure} Or leave out --entrypoint image.",
        )
