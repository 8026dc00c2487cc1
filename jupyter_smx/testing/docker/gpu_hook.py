"""Simulate NVIDIA's container toolkit: a hook of the container runtime, and a runtime that adds the hook.

Run as a program by a Docker daemon and by ``runc``, with nothing but Python's own library. As NVIDIA's does, the hook
reads from ``NVIDIA_VISIBLE_DEVICES`` of a container which GPUs are wanted, and gives it their device files and the
driver's library before its first process starts. The device files are twins of ``/dev/null``: no GPU is behind them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

HOOK = "nvidia-container-runtime-hook"
RUNTIME = "nvidia-container-runtime"
DRIVER = "libnvidia-ml.so.1"
GPU_LIST = "cards.json"
"""UUIDs of the machine's GPUs, in their order."""
_NO_GPU_VALUES = ("", "void", "none")


def requested_gpus(env: list[str], cards: list[str]) -> list[int]:
    """Return the numbers of the GPUs that a container's variables name.

    :raises LookupError: the machine has no such GPU; its argument is the requested one.
    """
    said = dict(row.partition("=")[::2] for row in env).get("NVIDIA_VISIBLE_DEVICES", "")
    if said in _NO_GPU_VALUES:
        return []
    known = {**{str(number): number for number in range(len(cards))}, **{uuid: n for n, uuid in enumerate(cards)}}
    names = cards if said == "all" else said.split(",")
    for name in names:
        if name not in known:
            raise LookupError(name)
    return [known[name] for name in names]


def add_devices(pid: int, root: str, numbers: list[int], driver: Path) -> None:
    """Put device files and the driver's library into a container whose processes have not begun."""
    nodes = [shlex.join(["mknod", "-m", "666", f"{root}/dev/nvidia{number}", "c", "1", "3"]) for number in numbers]
    copy = shlex.join(["install", "-D", os.fspath(driver), f"{root}/usr/lib/{DRIVER}"])
    inside = ["nsenter", f"--target={pid}", "--mount", "sh", "-ec", "\n".join([*nodes, copy])]
    subprocess.run(inside, check=True)


def prestart(here: Path, state: dict[str, Any]) -> int:
    """Do what the hook does, and give its exit status."""
    config = json.loads(Path(state["bundle"], "config.json").read_text())
    try:
        numbers = requested_gpus(config["process"]["env"], json.loads((here / GPU_LIST).read_text()))
    except LookupError as missing:
        sys.stderr.write(f"nvidia-container-cli: device error: {missing.args[0]}: unknown device\n")
        return 1
    if numbers:
        add_devices(state["pid"], config["root"]["path"], numbers, here / DRIVER)
    return 0


def add_hook(here: Path, words: list[str]) -> None:
    """Add the hook to the container that ``runc`` creates, if the daemon did not."""
    if "create" not in words:
        return
    path = Path(words[words.index("--bundle") + 1], "config.json")
    config = json.loads(path.read_text())
    hooks = config.setdefault("hooks", {}).setdefault("prestart", [])
    if not any(Path(hook["path"]).name == HOOK for hook in hooks):
        hooks.append({"path": os.fspath(here / HOOK), "args": [HOOK, "prestart"], "env": [f"PATH={os.defpath}"]})
    path.write_text(json.dumps(config))


def main(program: Path, words: list[str]) -> int:
    """Run the program by whose name this was started."""
    if program.name == HOOK:
        return prestart(program.parent, json.load(sys.stdin))
    add_hook(program.parent, words)
    return os.execvp("runc", ["runc", *words])  # noqa: S606, S607 - no shell; whichever the daemon would have found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
