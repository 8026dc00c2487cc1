"""Lead SageMaker's SDK to the front where no variable can: it calls STS by the address of the region.

The SDK makes that address by one function. It is replaced in the modules that use it, when they are imported or at once
if they are; ``remove_patch`` restores it.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

MODULES = ("sagemaker.session", "sagemaker.core.helper.session_helper", "sagemaker_core.helper.session_helper")
"""Modules that have the function: of the SDK's versions 2 and 3, and of SageMaker Core 1, which version 2 installs."""
FUNCTION = "sts_regional_endpoint"
_ORIGINAL = "_jupyter_smx_sts_regional_endpoint"
_URL_VARIABLE = "AWS_ENDPOINT_URL_STS"


def install_patch() -> None:
    """Replace the function in modules that are imported, and in those that will be. Idempotent."""
    for name in MODULES:
        module = sys.modules.get(name)
        if module is not None:
            _patch(module)
    if not any(isinstance(finder, _SdkFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SdkFinder())


def remove_patch() -> None:
    """Restore the function, and patch no further module. Idempotent."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _SdkFinder)]
    for name in MODULES:
        original = getattr(sys.modules.get(name), _ORIGINAL, None)
        if original is not None:
            setattr(sys.modules[name], FUNCTION, original)
            delattr(sys.modules[name], _ORIGINAL)


def _patch(module: ModuleType) -> None:
    original = getattr(module, FUNCTION, None)
    if original is None or hasattr(module, _ORIGINAL):
        return

    def sts_regional_endpoint(region: str) -> Any:
        """Return the front's address while the variables lead there."""
        return os.environ.get(_URL_VARIABLE) or original(region)

    setattr(module, _ORIGINAL, original)
    setattr(module, FUNCTION, sts_regional_endpoint)


class _SdkFinder(MetaPathFinder):
    """Finds the SDK's modules as usual, and has them patched after they have run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the usual spec with a loader that patches; None for other modules."""
        if fullname not in MODULES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader)
        return spec


class _PatchingLoader(Loader):
    """Runs a module by its own loader, and patches it then."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then replace the function in it."""
        self._loader.exec_module(module)
        _patch(module)

    def __getattr__(self, name: str) -> Any:
        """Return what else its own loader has, as its source for tracebacks."""
        return getattr(self._loader, name)
