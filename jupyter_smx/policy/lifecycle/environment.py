"""Environments of jobs: which requests share one, how messages name it, and which jobs wait for it.

An environment is its base interpreter, that one's version, and its requirements in a normal form; a hash of them names
its folder. So equal requests share one, whatever the order, the spelling and the comments of their files.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.model.text import format_duration, format_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec

CONSTRAINT = "-c "
_EDITABLE = "-e "
_EDITABLE_PATH = (f"{_EDITABLE}/", f"{_EDITABLE}file:")
BUILDING = "building"
BUILT = "built"
"""Moments in the timings of a job: its environment was begun, and was ready."""

_DIGITS = 20
_LAYOUT = 2
"""Number of what a build makes of its requirements; another number names other folders. 2: programs of the base."""
_TAIL = re.compile(r"\s(?=--(?:hash|config-settings?|global-option)\b)|\s(?=# content )")
_PIP_OPTION = re.compile(r"\s--(?!hash\b)")
_FOLDER_OPTIONS = ("-e", "--find-links")
_BREAKS = re.compile(r"[\r\n\0]")
MAX_LETTERS = 262_144
_FLAG = re.compile(r"--?[A-Za-z][A-Za-z-]*")
UV_OPTIONS = frozenset(
    {"-e", "--editable", "-i", "--index-url", "--extra-index-url", "--no-index", "-f", "--find-links"}
    | {"--no-binary", "--only-binary", "-c"}
)
"""Options of a line that uv honours; others it leaves out with a warning, so that pip has to read them.

Behind a requirement it reads hashes alone, and fails at another option.
"""


def check(spec: JobSpec, *, builds: bool, builds_remotely: bool = False) -> None:
    """Check the requirements of a job request.

    ``builds`` is True if the engine's hosts can use environments of the controller's machine, or build their own.
    ``builds_remotely`` is True if they are installed on another machine, which cannot read projects of this one.

    :raises ValidationError: a line is invalid, the lines are too long, or the engine does not support requirements.
    """
    if spec.requirements_only and not spec.requirements:
        raise ValidationError(
            "--python uv: no packages were given.",
            field="requirements",
            rule="--python uv makes an environment with only the given packages.",
            cure="For example --python uv:numpy,pandas==2.2.",
        )
    if not spec.requirements:
        return
    if not builds:
        raise ValidationError(
            f"--requirements: hosts of the engine {spec.engine} cannot run an environment of this machine.",
            field="requirements",
            value=spec.engine,
            rule="Requirements are installed into an environment of this machine.",
            cure="Install the packages in the Python of its hosts, or use --engine local.",
        )
    bad = next((line for line in spec.requirements if _BREAKS.search(line)), None)
    if bad is not None:
        raise ValidationError(
            f"--requirements: {bad!r} is more than one line.",
            field="requirements",
            value=bad,
            rule="Each requirement is one line, as in a requirements file.",
            cure="Pass each requirement separately.",
        )
    if builds_remotely:
        _check_editable(spec)
    size = sum(map(len, spec.requirements))
    if size > MAX_LETTERS:
        raise ValidationError(
            f"--requirements: {size} characters are too long.",
            field="requirements",
            value=size,
            rule=f"At most {MAX_LETTERS} characters.",
            cure="List only what the code imports; pip adds the dependencies.",
        )


def _check_editable(spec: JobSpec) -> None:
    line = next((line for line in spec.requirements if line.startswith(_EDITABLE_PATH)), None)
    if line is not None:
        path = _TAIL.split(line.removeprefix(_EDITABLE))[0]
        raise ValidationError(
            f"--requirements: the editable project {path} cannot be used by hosts of the engine {spec.engine}.",
            field="requirements",
            value=line,
            rule="The code of an editable project is read in place, and these hosts are on another machine.",
            cure="Write its path without -e: then it is installed there, again after each change of it.",
        )


def environment_of(spec: JobSpec) -> PythonEnvironment | None:
    """Return the environment of a request in its normal form; None if it needs only the interpreter.

    Hosts with an image have none: each job installs its own requirements there.
    """
    if spec.image or not spec.requirements:
        return None
    lines = normalise_requirements(spec.requirements)
    return PythonEnvironment(requirements=lines, only=spec.requirements_only, python_version=spec.python_version)


@lru_cache(maxsize=1_024)
def normalise_requirements(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Write requirements as everybody would: options first in their order, then each requirement once, sorted."""
    plain = [" ".join(line.split()) for line in lines if line.strip()]
    options = [line for line in plain if line.startswith("-") and not line.startswith((CONSTRAINT, "-e "))]
    rest = {_normalise_line(line) for line in plain if line not in options}
    return (*dict.fromkeys(options), *sorted(rest))


def _normalise_line(line: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only requirements need it
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - the same

    prefix = CONSTRAINT if line.startswith(CONSTRAINT) else ""
    head, *tail = _TAIL.split(line.removeprefix(prefix))
    try:
        found = Requirement(head)
    except InvalidRequirement:
        return line
    found.name = canonicalize_name(found.name)
    return " ".join([f"{prefix}{found}", *tail])


@lru_cache(maxsize=1_024)
def environment_id(python: str, environment: PythonEnvironment) -> str:
    """Name an environment over the interpreter ``python`` (absolute path): 20 hexadecimal digits."""
    facts = [_LAYOUT, python, environment.python_version, environment.only, *environment.requirements]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGITS]


def format_environment(environment: PythonEnvironment | None) -> str:
    """Format an environment: its requirements, a few by name."""
    if environment is None:
        return "without requirements"
    names = [_name(line) for line in environment.requirements if not line.startswith("-") or line.startswith("-e ")]
    return f"{'only ' if environment.only else ''}{format_list(names) or 'options alone'}"


def environment_diff(wanted: PythonEnvironment | None, found: PythonEnvironment | None) -> tuple[str, str]:
    """Describe the difference of two environments, the requested and the existing one; equal ones give equal text."""
    mine, other = format_environment(wanted), format_environment(found)
    if mine != other or wanted is None or found is None or wanted == found:
        return mine, other
    if wanted.python_version != found.python_version:
        return f"{mine} for Python {wanted.python_version}", f"{other} for Python {found.python_version}"
    return _format_difference(mine, wanted, found), _format_difference(other, found, wanted)


def _format_difference(said: str, one: PythonEnvironment, other: PythonEnvironment) -> str:
    more: Sequence[str] = [line for line in one.requirements if line not in other.requirements]
    if set(one.requirements) == set(other.requirements):
        more = one.requirements  # the order of options
    return f"{said} with {', '.join(more) if more else 'no other packages'}"


def _name(line: str) -> str:
    """Return a requirement without hashes, markers and folders."""
    head = _TAIL.split(line.removeprefix("-e "))[0].partition(";")[0].strip()
    path = head.partition("#")[0].rstrip("/")
    if "://" in head or head.startswith("/"):
        named = head.partition(" @ ")[0]
        return named if " @ " in head else path.rpartition("/")[2]
    return head


def needs_pip(lines: Iterable[str]) -> bool:
    """Return True if a line has an option that uv ignores, or one after a requirement, which uv cannot parse."""
    return any(_needs_pip(line) for line in lines)


def _needs_pip(line: str) -> bool:
    if not line.startswith("-"):
        return _PIP_OPTION.search(line) is not None
    flag = _FLAG.match(line)
    return flag is None or flag.group() not in UV_OPTIONS


def format_for_pip(lines: Iterable[str]) -> list[str]:
    """Return the lines in pip's syntax: pip splits the text after an option like a shell, uv takes it as it is."""
    return [_quote_path(line) for line in lines]


def _quote_path(line: str) -> str:
    flag, _, rest = line.partition(" ")
    if flag not in _FOLDER_OPTIONS:
        return line
    value, mark, content = rest.partition(" # ")
    return f"{flag} {shlex.quote(value)}{mark}{content}"


def is_building(timings: Mapping[str, float]) -> bool:
    """Return True if a job's environment was begun and is not ready, so that the job is not in the queue for hosts."""
    return BUILDING in timings and BUILT not in timings


def remote_note(job: Job) -> str:
    """Describe for ``why`` the environment of a job whose hosts' machine installs it; empty if it has none."""
    environment = environment_of(job.spec)
    if environment is None:
        return ""
    return f"Its environment ({format_environment(environment)}) is built once on the machine of its hosts."


def note(job: Job, *, ready: bool) -> str:
    """Describe for ``why`` where a job's environment came from; empty if it has none."""
    environment = environment_of(job.spec)
    if environment is None:
        return ""
    named = f"Its environment ({format_environment(environment)})"
    begun, built = job.timings.get(BUILDING), job.timings.get(BUILT)
    if begun is not None and built is not None:
        return f"{named} was built in {format_duration(max(0.0, built - begun))}."
    return f"{named} was ready." if ready else f"{named} has to be built first."
