"""The installed version of this package; a module of its own, since package metadata is slow to import."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(otherwise: str = "not installed as a package") -> str:
    """Give the version; ``otherwise`` where the package runs from its sources and was never installed."""
    try:
        return version("jupyter-smx")
    except PackageNotFoundError:
        return otherwise
