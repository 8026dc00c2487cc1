"""Lead SageMaker's SDK to the front in the Python processes of a shell, which imports this module at their start.

The interpreter may be one without this package, and each process pays for this module. So it imports the standard
library only, and the patch when the SDK is imported.
"""

# ruff: noqa: PTH100, PTH118, PTH120 - pathlib would take milliseconds of each process
from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PATCH = os.path.join(os.path.dirname(_FOLDER), "sagemaker_patch.py")
_PACKAGES = ("sagemaker", "sagemaker_core")  # the SDK, and SageMaker Core 1, which a notebook may use without it


class SdkImport:
    """Installs the patch before the first import of the SDK; it finds no module itself."""

    @classmethod
    def find_spec(cls, fullname: str, *_: object) -> None:
        """Install the patch if the SDK is imported."""
        if fullname not in _PACKAGES:
            return
        sys.meta_path.remove(cls)
        from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 - few processes need it

        spec = spec_from_file_location("jupyter_smx_sagemaker_patch", _PATCH)
        if spec is not None and spec.loader is not None:
            patch = module_from_spec(spec)
            spec.loader.exec_module(patch)
            patch.install_patch()


def run_next_module() -> None:
    """Run the ``sitecustomize`` of this interpreter, which this one hides."""
    others = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec  # noqa: PLC0415 - most interpreters have no such module

    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, SdkImport)
    run_next_module()
