"""A machine with one GPU where there is none: a driver's library, ``nvidia-smi`` and a ``torch`` of ours.

Each process that computes with this ``torch`` writes what it uses into a file; the other two read these files. As CUDA
does, ``torch`` refuses to compute in a fork of a process that has asked for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

UUID = "GPU-5a3c0000-0000-0000-0000-000000000001"
NAME = "No GPU at all"
TOTAL_MIB = 81_559

_DRIVER = """
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
typedef struct { unsigned long long total, free, used; } room_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } room_v2_t;
typedef struct { unsigned int gpu, memory; } rates_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int instance, compute; } process_t;
typedef struct { unsigned int pid; unsigned long long at; unsigned int sm, memory, encoder, decoder; } sample_t;
enum { DONE = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, MOST = 64 };
static struct { unsigned int pid, mib, percent; } rows[MOST];
static int read_rows(void) {
    int count = 0;
    DIR *folder = opendir(STATE);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) && count < MOST) {
        char path[512];
        unsigned int pid = atoi(entry->d_name), mib = 0, percent = 0;
        if (pid == 0 || kill(pid, 0)) continue;
        snprintf(path, sizeof path, "%s/%s", STATE, entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%u %u", &mib, &percent) == 2) {
            rows[count].pid = pid, rows[count].mib = mib, rows[count].percent = percent;
            count++;
        }
        fclose(file);
    }
    if (folder) closedir(folder);
    return count;
}
int nvmlInitWithFlags(unsigned int flags) { return DONE; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return DONE; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)1; return DONE; }
int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next) { return NOT_SUPPORTED; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned int size) { snprintf(text, size, "%s", UUID); return DONE; }
int nvmlDeviceGetName(void *device, char *text, unsigned int size) { snprintf(text, size, "%s", NAME); return DONE; }
int nvmlDeviceGetMemoryInfo(void *device, room_t *room) { return NOT_SUPPORTED; }
int nvmlDeviceGetMemoryInfo_v2(void *device, room_v2_t *room) {
    int count = read_rows();
    room->total = (unsigned long long)TOTAL_MIB << 20;
    room->used = 0;
    while (count--) room->used += (unsigned long long)rows[count].mib << 20;
    return DONE;
}
int nvmlDeviceGetUtilizationRates(void *device, rates_t *rates) {
    int count = read_rows();
    rates->gpu = 0;
    while (count--) rates->gpu += rows[count].percent;
    return DONE;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, process_t *found) {
    *count = 0;
    return DONE;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_t *found) {
    unsigned int room = *count;
    *count = read_rows();
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned int row = 0; row < *count; row++) {
        found[row].pid = rows[row].pid;
        found[row].used = (unsigned long long)rows[row].mib << 20;
    }
    return DONE;
}
int nvmlDeviceGetProcessUtilization(void *device, sample_t *found, unsigned int *count, unsigned long long since) {
    unsigned int room = found ? *count : 0;
    struct timeval now;
    gettimeofday(&now, NULL);
    *count = read_rows();
    if (*count == 0) return NOT_FOUND;
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned int row = 0; row < *count; row++) {
        found[row].pid = rows[row].pid;
        found[row].at = now.tv_sec * 1000000ull + now.tv_usec;
        found[row].sm = rows[row].percent;
    }
    return DONE;
}
"""

_SMI = """#!{python} -I
import os, sys
rows = []
for name in os.listdir({state!r}):
    if name.isdecimal() and os.path.exists("/proc/" + name):
        with open(os.path.join({state!r}, name)) as file:
            words = file.read().split()
        rows.append((name, *map(int, words or (0, 0))))
if sys.argv[1] == "-L":
    print("GPU 0: {name} (UUID: {uuid})")
elif sys.argv[1].startswith("--query-gpu="):
    said = dict(uuid={uuid!r}, name={name!r}, driver_version="1.2.3")
    said.update({{"memory.total": {total}, "memory.used": sum(row[1] for row in rows)}})
    said["utilization.gpu"] = sum(row[2] for row in rows)
    print(", ".join(str(said[field]) for field in sys.argv[1].partition("=")[2].split(",")))
else:
    for pid, mib, _percent in rows:
        print({uuid!r}, pid, mib, sep=", ")
"""

_TORCH = """
import os, sys, time, types, weakref
__version__ = "0.0+stand.in"
version = types.SimpleNamespace(cuda="0.0")
uint8 = "uint8"
STATE = {state!r}
_asked_in = 0
_mib, _percent, _busy, _noted, _ready = 0, 0, 0.0, time.monotonic(), False

default_generator = types.SimpleNamespace(manual_seed=lambda seed: None, initial_seed=lambda: 1 << 40)

def set_num_threads(count): pass

def get_num_threads(): return 1

def _note():
    path = os.path.join(STATE, str(os.getpid()))
    with open(path + ".new", "w") as file:
        file.write(f"{{_mib}} {{_percent}}")
    os.replace(path + ".new", path)

def _ask():
    global _asked_in
    if _is_in_bad_fork():
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess.")
    _asked_in = os.getpid()

def _is_in_bad_fork():
    return _asked_in not in (0, os.getpid())

def _init():
    global _ready
    _ask()
    if not _ready:
        _ready = True
        time.sleep(0.02)
        _take(400)

def _take(mib):
    global _mib
    _mib += mib
    _note()

def _compute():
    global _busy, _noted, _percent
    began = time.monotonic()
    time.sleep(0.002)
    now = time.monotonic()
    _busy += now - began
    if now - _noted > 0.3:
        _percent = min(100, round(100 * _busy / (now - _noted)))
        _busy, _noted = 0.0, now
        _note()

class Tensor:
    def __init__(self, bytes_, device):
        self._on_card = device is not None and device != "cpu"
        self._bytes = bytes_
        if self._on_card:
            _init()
            _take(bytes_ >> 20)
            weakref.finalize(self, _take, -(bytes_ >> 20)).atexit = False
    def __matmul__(self, other):
        if self._on_card:
            _compute()
        return Tensor(self._bytes, "cuda" if self._on_card else None)
    def __sub__(self, other): return self
    def __truediv__(self, other): return self
    def cuda(self): return Tensor(self._bytes, "cuda")
    def cpu(self): return Tensor(self._bytes, None)
    def norm(self): return self
    def sum(self): return self
    def backward(self): pass
    def item(self): return 0.0

def _make(*shape, device=None, dtype=None, requires_grad=False):
    count = 1
    for side in shape:
        count *= side
    return Tensor(count * (1 if dtype == uint8 else 4), device)

ones = randn = empty = _make

def _is_available():
    if _is_in_bad_fork():
        return False
    _ask()
    return True

cuda = types.SimpleNamespace(
    is_available=_is_available, is_initialized=lambda: _ready, init=_init, synchronize=_init, device_count=lambda: 1,
    get_device_name=lambda number: {name!r}, _is_in_bad_fork=_is_in_bad_fork,
)
"""


def missing_reason() -> str:
    """Say in a sentence why there can be no such machine here, '' when there can."""
    return "" if shutil.which("cc") else "There is no cc: `make programs` installs it."


def install(folder: Path) -> dict[str, str]:
    """Make the machine in a folder that jobs can see, and give the variables by which it is found."""
    state, programs, packages = folder / "state", folder / "bin", folder / "site-packages"
    for each in (state, programs, packages):
        each.mkdir(parents=True)
    source, library = folder / "driver.c", folder / "libnvidia-ml.so.1"
    head = f'#define STATE "{state}"\n#define UUID "{UUID}"\n#define NAME "{NAME}"\n#define TOTAL_MIB {TOTAL_MIB}\n'
    source.write_text(head + _DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)  # noqa: S607 - whichever
    smi = programs / "nvidia-smi"
    smi.write_text(_SMI.format(python=sys.executable, state=str(state), name=NAME, uuid=UUID, total=TOTAL_MIB))
    smi.chmod(0o755)
    (packages / "torch.py").write_text(_TORCH.format(state=str(state), name=NAME))
    config = folder / "config"
    config.mkdir()
    (config / "jupyter_smx_config.py").write_text("c = get_config()\nc.ControllerApp.gpus = 1\n")
    return {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": str(folder),
        "PYTHONPATH": str(packages),
        "JUPYTER_CONFIG_DIR": str(config),
    }
