"""Check the mounts of a request against ``DockerEngine.allowed_mounts``, and make the daemon's mounts of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.engines.docker.daemon.daemon_client import NOT_FOUND, DaemonError
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.text import format_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.model.spec.mount import Mount

TRAIT = "DockerEngine.allowed_mounts"
_WRITABLE = ":rw"


class AllowedMount(Struct, frozen=True):
    """One entry of the trait: an absolute path, for all that is below it, or the name of a volume."""

    source: str
    writable: bool = False

    def option_value(self) -> str:
        """Return the entry as the configuration has it."""
        return f"{self.source}{_WRITABLE if self.writable else ''}"

    def includes(self, source: str, resolve: Callable[[str], str]) -> bool:
        """Return True if a volume is this one, or if a resolved path is at or below this one."""
        if not self.source.startswith("/"):
            return source == self.source
        return source.startswith("/") and f"{source.rstrip('/')}/".startswith(f"{resolve(self.source).rstrip('/')}/")


def parse_allowed(text: str) -> AllowedMount:
    """Parse an entry of the trait.

    :raises ValueError: it is neither an absolute path nor the name of a volume.
    """
    source = text.removesuffix(":ro").removesuffix(_WRITABLE)
    if not source or ":" in source or ("/" in source and not source.startswith("/")):
        raise ValueError(f"{text!r} is neither an absolute path nor the name of a volume; :rw may follow")
    return AllowedMount(source, writable=text.endswith(_WRITABLE))


def resolve_mount(mount: Mount, allowed: Sequence[AllowedMount]) -> Mount:
    """Return a mount with the path of its source without links. Blocks, and sends no request.

    :raises RefusedError: it is not allowed, or its path does not exist.
    """
    # A link below an allowed folder may lead anywhere, so the place that it leads to has to be allowed.
    source = mount.source if mount.is_volume() else os.path.realpath(mount.source)
    check_allowed(mount, source, allowed, os.path.realpath)
    if not mount.is_volume() and not os.path.lexists(source):
        raise _missing_error(mount, f"there is no {mount.source}", "Correct the path, or create the folder.")
    return replace(mount, source=source)


async def check_volumes(daemon: Daemon, mounts: Sequence[Mount]) -> None:
    """Check that the volumes among the mounts exist: the daemon would create a missing one, which belongs to root.

    :raises RefusedError: one of them does not exist.
    :raises UnavailableError: the daemon does not answer.
    """
    for mount in mounts:
        if not mount.is_volume():
            continue
        try:
            await daemon.get(f"/volumes/{quote(mount.source, safe='')}")
        except DaemonError as problem:
            if problem.status != NOT_FOUND:
                raise daemon.operation_error("look for a volume", problem) from problem
            raise _missing_error(
                mount,
                f"there is no volume {mount.source!r}",
                f"{daemon.kind.program} volume create {mount.source} creates it.",
            ) from problem


def daemon_mount(mount: Mount) -> dict[str, Any]:
    """Return the daemon's form of a mount. Pure."""
    kind = "volume" if mount.is_volume() else "bind"
    found: dict[str, Any] = {"Type": kind, "Source": mount.source, "Target": mount.target}
    return found | ({} if mount.writable else {"ReadOnly": True})


def check_allowed(
    mount: Mount, source: str, allowed: Sequence[AllowedMount], resolve: Callable[[str], str] = lambda path: path
) -> None:
    """Check that the configuration allows a mount; ``source`` is its path without links.

    :raises RefusedError: it does not; the text names the trait.
    """
    fitting = [one for one in allowed if one.includes(source, resolve)]
    if not fitting:
        shown = mount.source if source == mount.source else f"{mount.source}, which is {source},"
        raise RefusedError(
            f"--mount: {shown} is not allowed.",
            field="mounts",
            value=mount.option_value(),
            rule=f"{TRAIT} allows {format_list([one.option_value() for one in allowed], 10) or 'no mounts'}.",
            cure=f"Add it to c.{TRAIT} in jupyter_smx_config.py, or pass the files with --input.",
        )
    if mount.writable and not any(one.writable for one in fitting):
        raise RefusedError(
            f"--mount: {mount.source} may only be read.",
            field="mounts",
            value=mount.option_value(),
            rule=f"{TRAIT} has {format_list([one.option_value() for one in fitting])} without {_WRITABLE}.",
            cure=f"Remove {_WRITABLE}, or add {fitting[0].source}{_WRITABLE} to c.{TRAIT} in jupyter_smx_config.py.",
        )


def _missing_error(mount: Mount, what: str, cure: str) -> RefusedError:
    return RefusedError(
        f"--mount: {what}.",
        field="mounts",
        value=mount.option_value(),
        rule="SOURCE is a folder or file of this machine, or a volume of the daemon.",
        cure=cure,
    )
