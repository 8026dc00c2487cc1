"""An engine of another package. That its hosts are on this machine is no matter to the contract."""

from __future__ import annotations

from typing import ClassVar

from jupyter_smx.engines.local.engine import LocalEngine


class MoonEngine(LocalEngine):
    """Starts agents as the local engine does, under another name."""

    name: ClassVar[str] = "moon"
