"""What an import does with accelerators is not for forked jobs: CUDA that was looked for, a device that was opened."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.system.interpreter import accelerators

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has open")

TORCH = """
import os, types
_used = []
class ones:
    def __init__(self, *shape, requires_grad=False): pass
    def __matmul__(self, other): return self
    def sum(self): return self
    def backward(self): pass
def set_num_threads(count): pass
def _is_available():
    _used.append(os.getpid())
    return False
cuda = types.SimpleNamespace(
    is_initialized=lambda: False,
    is_available=_is_available,
    _is_in_bad_fork=lambda: bool(_used) and _used[0] != os.getpid(),
)
"""
"""Stands in for a torch that knows CUDA: it notes that it was asked for a GPU, and its driver fails in a child then."""
PACKAGES = {
    "torch": TORCH,
    "quantised": "import torch\nfast = torch.cuda.is_available()\n",
    "finetuning": "import quantised\n",
    "plain": "import torch\n",
}


@pytest.fixture
def packages(site: Path) -> None:
    """Install the packages."""
    for name, text in PACKAGES.items():
        (site / f"{name}.py").write_text(text)


@pytest.mark.usefixtures("packages")
def test_a_package_whose_import_looks_for_a_gpu_is_not_preloaded_and_cuda_works_in_jobs(
    preload: Callable[..., tuple[Agent, dict[str, Any]]],
) -> None:
    agent, news = preload("torch", "finetuning", "quantised", "plain")
    assert news["loaded"] == ["torch", "plain"]
    reason = "its import marks CUDA as used, and a forked process cannot use it then"
    assert news["failed"] == {"finetuning": reason, "quantised": reason}
    seen = agent.json("import finetuning, json, torch\nprint(json.dumps(torch.cuda._is_in_bad_fork()))")
    assert seen is False


@LINUX
def test_a_package_whose_import_opens_a_device_is_not_preloaded(
    preload: Callable[..., tuple[Agent, dict[str, Any]]], site: Path
) -> None:
    device = next((path for path in ("/dev/kmsg", "/dev/autofs", "/dev/fuse") if os.access(path, os.R_OK)), None)
    if device is None:
        pytest.skip("this machine has no device that a test may open")
    (site / "driver.py").write_text(f"import os\nkept = os.open({device!r}, os.O_RDONLY | os.O_NONBLOCK)\n")
    (site / "harmless.py").write_text("kept = [open(name) for name in ('/dev/null', '/dev/urandom', __file__)]\n")
    _agent, news = preload("driver", "harmless")
    assert news["loaded"] == ["harmless"]
    assert news["failed"] == {"driver": f"its import opened the device {device}"}


def test_devices_are_found_among_open_and_mapped_files(tmp_path: Path) -> None:
    (tmp_path / "fd").mkdir()
    files = [
        "/dev/nvidiactl",
        "/dev/null",
        "/dev/pts/3",
        "/dev/tty",
        "/dev/random",
        "/home/dev/x",
        "socket:[5]",
        "/dev/kfd",
    ]
    for number, name in enumerate(files):
        (tmp_path / "fd" / str(number)).symlink_to(name)
    mapped = ["/dev/dri/renderD128", "/dev/zero (deleted)", "/dev/mqueue/x", "/usr/lib/dev/libc.so"]
    lines = [f"7f00-7f01 rw-s 00000000 00:05 {inode}   {name}\n" for inode, name in enumerate(mapped)]
    (tmp_path / "maps").write_text("".join([*lines, "7f02-7f03 rw-p 00000000 00:00 0\n"]))
    assert accelerators.open_devices(str(tmp_path)) == {"/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128"}
    assert accelerators.open_devices(str(tmp_path / "gone")) == frozenset()
