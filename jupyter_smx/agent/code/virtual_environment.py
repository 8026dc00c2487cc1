"""Make a virtual environment over the packages of this Python; separate, because requirements and installs need it."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import List

REQUIREMENTS = "requirements"
"""Folder below ``/opt/ml`` of the environment for a job's requirements."""
_OVERLAY = "_jupyter_smx_image.pth"


def make(home: str, folders: List[str]) -> str:
    """Create a virtual environment with these folders of packages after its own, and return its own folder.

    It needs neither the package venv, which some images lack, nor time for an installation of pip.

    :raises OSError: disk full.
    """
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
    packages = sysconfig.get_path("purelib", scheme, {"base": home, "platbase": home})
    for folder in (packages, os.path.join(home, "bin")):
        os.makedirs(folder)
    if not os.path.exists(os.path.join(home, "lib64")):
        os.symlink("lib", os.path.join(home, "lib64"))
    base: str = getattr(sys, "_base_executable", None) or sys.executable
    os.symlink(sys.executable, os.path.join(home, "bin", "python"))
    for name in ("python3", "python{}.{}".format(*sys.version_info)):
        os.symlink("python", os.path.join(home, "bin", name))
    with open(os.path.join(home, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        # To Python "no" means false, and pip accepts --user with it: PYTHONUSERBASE may be this environment.
        file.write(f"home = {os.path.dirname(os.path.realpath(base))}\ninclude-system-site-packages = no\n")
    with open(os.path.join(packages, _OVERLAY), "w", encoding="utf-8") as file:
        file.writelines(f"import site; site.addsitedir({path!r})\n" for path in folders)
    return packages
