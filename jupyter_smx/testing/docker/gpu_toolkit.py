"""Simulate the GPUs of a machine for container tests: a toolkit and a driver in NVIDIA's places.

The mechanism is real: the daemon's own device driver, a hook that ``runc`` calls, device files, and a library
that is loaded by its name and called as NVIDIA's is (``nvml.h``).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.testing.docker import gpu_hook

if TYPE_CHECKING:
    from collections.abc import Sequence

BUSY_PERCENT = 40
"""Percent; GPU number N is ``BUSY_PERCENT + N`` percent busy."""
USED_BYTES = 1 << 30
"""Bytes; of the memory of GPU number N, ``(N + 1) * USED_BYTES`` are used."""
_DRIVER = """
#include <stdio.h>
#include <unistd.h>
typedef struct { unsigned long long total, free, used; } room_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } room_v2_t;
typedef struct { unsigned int gpu, memory; } rates_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int instance, compute; } process_t;
static const char *cards[] = { %s };
enum { CARDS = sizeof cards / sizeof *cards, DONE = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
static int is_here(int number) {
    char path[32];
    snprintf(path, sizeof path, "/dev/nvidia%%d", number);
    return access(path, R_OK | W_OK) == 0;
}
static int number_of(void *device) { return (int)(long)device - 1; }
int nvmlInitWithFlags(unsigned int flags) { return DONE; }
int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 0;
    for (int number = 0; number < CARDS; number++) *count += is_here(number);
    return DONE;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    for (int number = 0; number < CARDS; number++)
        if (is_here(number) && index-- == 0) { *device = (void *)(long)(number + 1); return DONE; }
    return NOT_SUPPORTED;
}
int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next) { return NOT_SUPPORTED; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned int size) {
    snprintf(text, size, "%%s", cards[number_of(device)]);
    return DONE;
}
int nvmlDeviceGetName(void *device, char *text, unsigned int size) {
    snprintf(text, size, "No GPU at all");
    return DONE;
}
int nvmlDeviceGetMemoryInfo(void *device, room_t *room) { return NOT_SUPPORTED; }
int nvmlDeviceGetMemoryInfo_v2(void *device, room_v2_t *room) {
    room->total = %d * 80ull;
    room->used = %d * (number_of(device) + 1ull);
    return DONE;
}
int nvmlDeviceGetUtilizationRates(void *device, rates_t *rates) {
    rates->gpu = %d + number_of(device);
    return DONE;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, process_t *rows) {
    *count = 0;
    return DONE;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_t *rows) {
    unsigned int room = *count;
    *count = 1;
    if (room == 0) return INSUFFICIENT_SIZE;
    rows[0].pid = 4194303; /* as the machine counts */
    return DONE;
}
"""
"""NVML in a container: it counts processes by the machine's pids, which are of no use there."""


def unavailable_reason() -> str:
    """Return a sentence on why this is impossible here, empty if it is possible."""
    missing = [name for name in ("cc", "nsenter") if shutil.which(name) is None]
    return f"There is no {' and no '.join(missing)}: `make programs` installs them." if missing else ""


def install(folder: Path, cards: Sequence[str]) -> list[str]:
    """Install toolkit and driver of a machine with these GPUs (UUIDs) in a folder; return the daemon's options for it.

    The daemon has to find the folder on its ``PATH``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / gpu_hook.GPU_LIST).write_text(json.dumps(list(cards)))
    source = folder / "driver.c"
    source.write_text(_DRIVER % (", ".join(map(json.dumps, cards)), USED_BYTES, USED_BYTES, BUSY_PERCENT))
    library = folder / gpu_hook.DRIVER
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)  # noqa: S607 - whichever
    for name in (gpu_hook.HOOK, gpu_hook.RUNTIME):
        program = folder / name
        words = [sys.executable, "-I", os.fspath(Path(gpu_hook.__file__).resolve()), os.fspath(program)]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
    return [f"--add-runtime=nvidia={folder / gpu_hook.RUNTIME}", "--default-runtime=nvidia"]
