"""Write wheels without tools; separate, because tests of installing in all layers use it."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_WHEEL = "Wheel-Version: 1.0\nGenerator: jupyter-smx-tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(
    folder: Path, name: str, version: str, *, needs: tuple[str, ...] = (), code: str = "", within: str = ""
) -> Path:
    """Write a wheel with one module of its own name, whose ``version`` is its version; give its path.

    ``within`` is a namespace in which it is a package, ``google`` as an example.
    """
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    rows = [f"Requires-Dist: {need}\n" for need in needs]
    files = {
        f"{within}/{name}/__init__.py" if within else f"{name}.py": f"version = {version!r}\n{code}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(rows)}",
        f"{info}/WHEEL": _WHEEL,
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]))
    return path
