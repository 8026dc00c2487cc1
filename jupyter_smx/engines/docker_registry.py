"""Registries from which images come: who this user is there, and what it means when they give none."""

from __future__ import annotations

import re
from typing import NamedTuple

from docker import auth, errors
from docker.utils import parse_repository_tag

from jupyter_smx.model.errors import RefusedError

_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}|sha256:[0-9a-f]+")


class Login(NamedTuple):
    """What a daemon is given to say to a registry, "" where there is nothing; ``trouble`` says why, if it should be."""

    header: str = ""
    trouble: str = ""


class _Kind(NamedTuple):
    signs: tuple[str, ...]
    """Patterns in what the daemon says."""
    rule: str
    cure: str
    transient: bool = False


_KINDS = (
    _Kind(
        ("no space left on device",),
        "An image is unpacked on the disk of the daemon.",
        "Free some space on that disk; docker system df says what is there.",
        transient=True,
    ),
    _Kind(
        ("toomanyrequests", "too many requests"),
        "Registry {registry} gives only so many images in a time to one user.",
        "Ask later, or as a user who may have more: docker login {registry}.",
        transient=True,
    ),
    _Kind(
        ("server gave http response to https client",),
        "Registry {registry} has no TLS, and Docker asks none without it but this machine's and those that it is told.",
        'Give it TLS, or name it in "insecure-registries" of the daemon\'s daemon.json.',
    ),
    _Kind(
        ("x509:", "certificate"),
        "The daemon does not trust the certificate of registry {registry}.",
        "Put the certificate of who signed it into /etc/docker/certs.d/{registry}/ca.crt.",
    ),
    _Kind(
        ("no matching manifest", "no match for platform"),
        "This machine runs what is made for its own kind of processor, and nothing else.",
        "Name an image that is made for it, or build this one for it too: docker buildx build --platform.",
    ),
    _Kind(
        (
            "invalid reference",
            "invalid tag",
            "must be lowercase",
            "invalid repository",
            "invalid digest",
            "checksum digest",
        ),
        "A name is REGISTRY/REPOSITORY:TAG in small letters, or REPOSITORY@sha256:DIGITS.",
        "Correct it.",
    ),
    _Kind(
        ("denied", "unauthorized", "authentication required", "no basic auth credentials", "forbidden"),
        "Registry {registry} has no such image, or gives it to those only who may have it.",
        "Look at the name, or run docker login {registry} as this user; what it leaves is read anew each time.",
    ),
    _Kind(
        ("manifest unknown", "name unknown", "not known to registry", "not found"),
        "Registry {registry} has no such image.",
        "Look at the name and the tag, or bring it here with docker load or docker build -t {name}.",
    ),
    _Kind(
        (r"no such host", r"network is unreachable", r"lookup .*connection refused"),
        "The daemon knows no way from here to registry {registry}.",
        "Look at the name, or bring the image here with docker load or docker build -t {name}.",
    ),
)
_AWAY = _Kind(
    (),
    "Registry {registry} cannot be asked now.",
    "See that it runs and is reached from here: docker pull {name} asks the same.",
    transient=True,
)


def is_id(name: str) -> bool:
    """Say whether this is the id of an image, which no registry knows."""
    return _ID.fullmatch(name) is not None


def is_fixed(name: str) -> bool:
    """Say whether a name means one image for ever."""
    return is_id(name) or "@" in name


def split(name: str) -> tuple[str, str]:
    """Give the repository and the tag, or digest, that a name means."""
    repository, tag = parse_repository_tag(name)
    return repository, tag or "latest"


def registry_of(name: str) -> str:
    """Give the registry that a name leads to, "" where it is no name."""
    try:
        return str(auth.resolve_repository_name(split(name)[0])[0])
    except (errors.DockerException, ValueError, IndexError):
        return ""


def digest_of(name: str, known: list[str] | None) -> str:
    """Choose of the digests that a daemon has for an image the one of the repository by which it was named."""
    repository = split(name)[0]
    found = known or []
    return next((one for one in found if one.partition("@")[0] == repository), found[0] if found else "")


def login(name: str) -> Login:
    """Read who this user is at a registry, as ``docker login`` left it; runs helpers for credentials. Blocks."""
    try:
        found = auth.resolve_authconfig(auth.load_config(), registry_of(name))
        return Login(auth.encode_header(found).decode()) if found else Login()
    except (errors.DockerException, OSError, ValueError, TypeError, KeyError) as problem:
        # As Docker's own program does: most images are given to everybody.
        return Login(trouble=f"what docker login left cannot be read: {problem}")


def refusal(name: str, url: str, words: str, trouble: str = "") -> RefusedError:
    """Say why an image did not come, and what to do; transient where asking again may help. Pure."""
    registry = registry_of(name) or "of that name"
    kind = next((kind for kind in _KINDS if any(re.search(sign, words.lower()) for sign in kind.signs)), _AWAY)
    said = "; ".join(part for part in (words.strip().rstrip("."), trouble) if part)
    return RefusedError(
        f"image: {name!r} is not an image of Docker at {url}, and cannot be downloaded: {said}.",
        field="image",
        value=name,
        rule=kind.rule.format(registry=registry),
        cure=kind.cure.format(registry=registry, name=name),
        transient=kind.transient,
    )
