"""How jobs see their host; without the host itself, because its first zygote starts before that is loaded."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Dict, Optional, Tuple

from jupyter_smx.agent.system.files import short_path
from jupyter_smx.agent.system.processes import environment

if TYPE_CHECKING:
    from jupyter_smx.agent.system.files.host_folder import HostFolder
    from jupyter_smx.agent.system.isolation.opt_ml_links import SharedOptMl


class Isolation:
    """How jobs see this host: ``namespace`` with a real ``/opt/ml``, or ``variables`` and the reason why not.

    In a namespace a reason says why jobs have the machine's ``/``. With ``links`` the machine's ``/opt/ml`` leads to
    this host, always or while it runs a job (``opt_ml``); everything else is as with ``variables``.

    In a ``container`` the world of the host was made before its agent, which mounts nothing there.

    ``machine`` is the name of the machine outside; in a namespace this process has the host's own name. ``store`` is
    where this process alone writes to the inputs that the host keeps, '' where it cannot mount anything.
    """

    def __init__(
        self,
        mode: str,
        reason: str = "",
        hidden: Tuple[Tuple[str, str], ...] = (),
        machine: str = "",
        store: str = "",
        opt_ml: Optional[SharedOptMl] = None,
    ) -> None:
        self.mode = mode
        self.opt_ml = opt_ml
        self.store = store
        self.machine = machine or socket.gethostname()
        self.reason = reason
        self.hidden = hidden
        self.hosts_file = self._identity()
        self._shown_folder = ""

    @staticmethod
    def _identity() -> Tuple[int, int]:
        try:
            found = os.stat("/etc/hosts")
        except OSError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def is_intact(self) -> bool:
        """Return True if the host's ``/etc/hosts`` is still in place; a rename over it from outside removes it."""
        return self.mode != "namespace" or self._identity() == self.hosts_file

    def has_own_namespaces(self) -> bool:
        """Return True if ``/opt/ml``, shared memory and message queues belong to this host alone."""
        return self.mode in ("namespace", "container")

    def has_own_root(self) -> bool:
        """Return True if the host's jobs have a ``/`` of their own, with all that the machine's has."""
        return self.mode == "namespace" and not self.reason

    def has_own_tmp(self) -> bool:
        """Return True if the host's jobs have a ``/tmp`` of their own."""
        hides = any(prefix == "/tmp" for prefix, _real in self.hidden)  # noqa: S108 - asked, not used
        return hides or self.mode == "container"

    def shown_folder(self, folder: HostFolder) -> str:
        """Return what jobs call the host's folder, which gets a short name first where it needs one."""
        if not self._shown_folder:
            # With a /tmp of their own they need no name for it.
            self._shown_folder = folder.root if self.has_own_tmp() else short_path.make_short_path(folder)
        return self._shown_folder

    def zygote_environment(self, folder: HostFolder) -> Dict[str, str]:
        """Return the environment of the host's zygotes."""
        own = self.has_own_tmp()
        # A /tmp of their own is bound to the host's folder.
        tmp = "/tmp" if own else os.path.join(self.shown_folder(folder), os.path.basename(folder.tmp))  # noqa: S108
        return environment.zygote_environment(os.environ, tmp)
