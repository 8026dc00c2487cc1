"""Registries of images: the user's credentials, and what the errors of a registry mean."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docker import auth, credentials, errors
from docker.credentials.errors import StoreError, process_store_error
from docker.utils import parse_repository_tag
from docker.utils.config import find_config_file

from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.docker.daemon.error_patterns import ErrorPattern, first_match
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.text import format_duration, format_list

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_TAGS = 5
"""Tags of a repository that a hint lists."""
_SIMILARITY_CUTOFF = 0.8
"""Minimum similarity of two repositories for one to be a typing error."""
_PODMAN_PREFIX = "localhost/"
_UNREADABLE = "the credentials of docker login cannot be read"
_HELPER_SECONDS = 20.0
"""Seconds that a credential helper may take; it may wait for input of an absent user."""

_NAME_PATTERN = re.compile(r"(?:for|of|image|repository) ([\w-]+)|\S*(?:/|[^\s:]:[^\s:])\S*")
"""Names in a daemon's message: a word after one of these, and any with a slash or a colon in it."""
_AMAZON = re.compile(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
"""A registry of Amazon's, with its region."""
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}|sha256:[0-9a-f]+")


NAME_RULE = "A name is REGISTRY/REPOSITORY:TAG, in lower case except the tag, or REPOSITORY@sha256:DIGITS."


class Login(NamedTuple):
    """Credentials for a registry, "" if there are none; ``trouble`` is the reason, if there should be some."""

    header: str = ""
    trouble: str = ""


_REASONS = (
    ErrorPattern(("reserved name",), "Docker uses this name itself.", "Use the name of another image."),
    ErrorPattern(
        ("no space left on device",),
        "The daemon unpacks images on its disk.",
        "Free some space on that disk; {program} system df shows its use.",
        transient=True,
    ),
    ErrorPattern(
        ("toomanyrequests", "too many requests"),
        "Registry {registry} limits the number of downloads of a user.",
        "Try later, or log in as a user with a higher limit: {login}.",
        transient=True,
    ),
    ErrorPattern(
        ("server gave http response to https client",),
        "Registry {registry} has no TLS, and {engine} uses such registries only if configured.",
        "Set up TLS, or add the registry to {insecure}.",
    ),
    ErrorPattern(
        ("x509:", "tls: .*certificate"),
        "The daemon does not trust the certificate of registry {registry}.",
        "Put the certificate of its CA into {certificates}/{registry}/ca.crt.",
    ),
    ErrorPattern(
        ("operating system .*cannot be used", "operating system is not supported"),
        "Hosts need images for Linux.",
        "Use an image for Linux, or build this one for Linux too: {program} build --platform.",
    ),
    ErrorPattern(
        ("no matching manifest", "no match for platform"),
        "The image is not available for this machine's processor type.",
        "Use an image for this processor type, or build this one for it too: {program} build --platform.",
    ),
    ErrorPattern(
        (
            "invalid reference",
            "invalid tag",
            "must be lowercase",
            "invalid repository",
            "invalid digest",
            "checksum digest",
        ),
        NAME_RULE,
        "Correct it.",
    ),
    ErrorPattern(
        ("denied", "unauthorized", "authentication required", "no basic auth credentials", "forbidden"),
        "Registry {registry} has no such image, or this user has no access to it.",
        "Check the name, or run {login} as this user; the login applies to the next download.",
    ),
    ErrorPattern(
        ("manifest unknown", "name unknown", "not known to registry", "not found"),
        "Registry {registry} has no such image.",
        "Check the name and the tag, or get it with {program} load or {program} build -t {name}.",
    ),
    ErrorPattern(
        (r"no such host", r"network is unreachable", r"lookup .*connection refused"),
        "The daemon cannot reach registry {registry}.",
        "Check the name, or get the image with {program} load or {program} build -t {name}.",
    ),
)
_UNREACHABLE = ErrorPattern(
    (),
    "Registry {registry} does not respond.",
    "Check that it runs and is reachable from this machine, e.g. with {program} pull {name}.",
    transient=True,
)


def is_id(name: str) -> bool:
    """Return True if this is the id of an image, which is no name in a registry."""
    return _ID.fullmatch(name) is not None


def is_immutable(name: str) -> bool:
    """Return True if a name always means the same image."""
    return is_id(name) or "@" in name


def split_name(name: str) -> tuple[str, str]:
    """Return the repository and the tag, or digest, of a name."""
    repository, tag = parse_repository_tag(name)
    return repository, tag or "latest"


def suggest_image(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known image that the user may have meant by an unknown name, or with its known tags.

    It is "" if there is none, or if the name is known. Only repositories are compared, because very different images
    have similar tags.
    """
    wanted = _parts(name)
    rows = {_parts(one): one for one in known}
    if not wanted[0] or wanted in rows:
        return ""
    near = get_close_matches(wanted[0], {repository for repository, _tag in rows}, cutoff=_SIMILARITY_CUTOFF)
    tags = {":".join(row): one for row, one in rows.items() if row[0] in near}
    found = get_close_matches(":".join(wanted), tags, n=1)
    if found:
        return f"Did you mean {tags[found[0]]}?"
    same = sorted(one for row, one in rows.items() if row[0] == wanted[0])
    if not same:
        return ""
    meaning = f"{name} means {wanted[0]}:{wanted[1]}. " if name.removeprefix(_PODMAN_PREFIX) == wanted[0] else ""
    return f"{meaning}The images {wanted[0]} here are {format_list(same, _MAX_TAGS)}."


def _parts(name: str) -> tuple[str, str]:
    repository, tag = split_name(name)
    return repository.removeprefix(_PODMAN_PREFIX), tag


def registry_host(name: str) -> str:
    """Return the registry of a name, "" if it is no name."""
    return _resolve_name(name)[0]


def _resolve_name(name: str) -> tuple[str, str]:
    """Return the registry of a name, and the full repository there; the default registry is Docker's own."""
    try:
        repository = split_name(split_name(name)[0])[0]  # a tag may stand before a digest, which counts
        registry, path = map(str, auth.resolve_repository_name(repository))
    except (errors.DockerException, ValueError, IndexError):
        return "", ""
    return registry, path if "/" in path or registry != auth.INDEX_NAME else f"library/{path}"


def repo_digest(name: str, known: list[str] | None) -> str:
    """Choose of the digests that a daemon has for an image the one of the repository by which it was named."""
    found, place = known or [], _resolve_name(name)
    same = [one for one in found if _resolve_name(one) == place]
    named = [one for one in same if one.endswith(f"@{split_name(name)[1]}")]
    return next(iter([*named, *same, *found]), "")


def read_login(name: str) -> Login:
    """Read this user's credentials for a registry, as ``docker login`` stored them; runs credential helpers. Blocks."""
    try:
        _check_config()
        found = _AuthConfig(auth.load_config()).resolve_authconfig(registry_host(name))
        return Login(auth.encode_header(found).decode()) if found else Login()
    except (errors.DockerException, OSError, ValueError, TypeError, KeyError) as problem:
        # As Docker's own program does: most images are given to everybody.
        return Login(trouble=f"{_UNREADABLE}: {problem}")


def read_all_logins() -> Login:
    """Read all credentials of this user, encoded for a build, whose images may come from any registry. Blocks."""
    try:
        _check_config()
        known = _AuthConfig(auth.load_config()).get_all_credentials()  # type: ignore[no-untyped-call]
        found = {name: login for name, login in known.items() if login}
        return Login(auth.encode_header(found).decode()) if found else Login()
    except (errors.DockerException, OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        return Login(trouble=f"{_UNREADABLE}: {problem}")


def _check_config() -> None:
    """Check that the configuration of Docker's command line can be read, which the library takes for an empty one.

    :raises ValueError: it is not JSON.
    """
    path = str(find_config_file() or "")
    if path:
        try:
            json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as problem:
            raise ValueError(f"{path} is not JSON ({problem})") from problem


class _AuthConfig(auth.AuthConfig):
    """Credentials stored by ``docker login``, and helpers with a time limit."""

    def _get_store_instance(self, name: str) -> credentials.Store:
        return _CredentialHelper(name)


class _CredentialHelper(credentials.Store):
    """A credential helper; one that hangs is killed with all its processes."""

    def _execute(self, subcmd: str, data_input: bytes) -> bytes:
        if self.exe is None:
            raise StoreError(f"{self.program} is not on the PATH")
        pipe = subprocess.PIPE
        with subprocess.Popen([self.exe, subcmd], stdin=pipe, stdout=pipe, start_new_session=True) as helper:
            try:
                said, _ = helper.communicate(data_input, timeout=_HELPER_SECONDS)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(helper.pid, signal.SIGKILL)
                raise StoreError(f"{self.program} did not answer within {format_duration(_HELPER_SECONDS)}") from None
        if helper.returncode:
            raise process_store_error(subprocess.CalledProcessError(helper.returncode, subcmd, said), self.program)
        return said


def refusal(
    name: str,
    url: str,
    words: str,
    trouble: str = "",
    kind: DaemonInfo = DaemonInfo(),  # noqa: B008 - it is frozen
    *,
    is_here: bool = False,
) -> RefusedError:
    """Return the error of a failed download with its cure; transient if a retry may help. Pure."""
    registry = registry_host(name) or "of that name"
    heard = _strip_names(name, words.lower())
    reason = first_match(_REASONS, heard) or _UNREACHABLE
    said = "; ".join(part for part in (words.strip().rstrip("."), trouble) if part)
    what = f"is an image of {kind.name} at {url}, but" if is_here else f"is not an image of {kind.name} at {url}, and"
    known = {"name": name, "registry": registry, **_cure_fields(kind, registry)}
    return RefusedError(
        f"image: {name!r} {what} cannot be downloaded{' again' if is_here else ''}: {said}.",
        field="image",
        value=name,
        rule=reason.rule.format(**known),
        cure=reason.cure.format(**known),
        transient=reason.transient,
    )


def _cure_fields(kind: DaemonInfo, registry: str) -> dict[str, str]:
    """Return the values for a cure's placeholders, for a kind of daemon; logins are read where Docker stores them."""
    folder = "/etc/containers/certs.d" if kind.podman else "/etc/docker/certs.d"
    found = {"engine": kind.name, "program": kind.program, "certificates": folder}
    if kind.podman:
        login = _login_command(registry, "podman login --authfile ~/.docker/config.json")
        return found | {"login": login, "insecure": "a [[registry]] with insecure = true of registries.conf"}
    return found | {
        "login": _login_command(registry, "docker login"),
        "insecure": '"insecure-registries" of the daemon\'s daemon.json',
    }


def _login_command(registry: str, program: str) -> str:
    """Return the login command; Amazon's registries use a password that is valid for twelve hours."""
    amazon = _AMAZON.fullmatch(registry)
    if amazon is None:
        return f"{program} {registry}"
    return (
        f"aws ecr get-login-password --region {amazon[1]} | {program} --username AWS --password-stdin "
        f"{registry} (valid for twelve hours)"
    )


def _strip_names(name: str, words: str) -> str:
    """Return a message without the names in it: an image may be named "denied", or "certificate"."""
    called = {part.lower() for part in (name, registry_host(name), *re.split(r"[/:@]", name))}

    def left(found: re.Match[str]) -> str:
        return found[0] if found[1] is not None and found[1] not in called else " "

    return " ".join(
        word
        for word in _NAME_PATTERN.sub(left, words).split()
        if word.strip(".,;:'\"()") not in called or word.isalpha()
    )
