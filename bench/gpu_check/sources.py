"""Code of the jobs: each prints lines of JSON that begin with :data:`MARK`."""

from __future__ import annotations

import json
from typing import Any

MARK = "GPU_CHECK "

_REPORT = f"""
def report(**seen):
    print({MARK!r} + json.dumps(seen), flush=True)
"""

FIRST_KERNEL = f"""
import json, os, sys, time
began = time.time()
preloaded = "torch" in sys.modules
import torch
imported = time.time()
{_REPORT}
available = torch.cuda.is_available()
torch.cuda.init()
torch.cuda.synchronize()
context = time.time()
ones = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
kernel = time.time()
left = torch.randn(512, 512)
product = (left.cuda() @ left.cuda()).cpu()
multiplied = time.time()
right = left @ left
error = ((product - right).norm() / right.norm()).item()
report(
    pid=os.getpid(), preloaded=preloaded, available=available, error=error, began=began, imported=imported,
    context=context, kernel=kernel, multiplied=multiplied, torch=torch.__version__, cuda=torch.version.cuda,
    cards=torch.cuda.device_count(), name=torch.cuda.get_device_name(0),
)
"""
"""The moments, seconds since the epoch: code begins, torch is imported, the context is made, a kernel has ended."""

LOAD = f"""
import json, os, time
import torch
{_REPORT}
left = torch.randn(4096, 4096, device="cuda")
held = torch.empty(MIB << 20, dtype=torch.uint8, device="cuda")
product = left @ left
torch.cuda.synchronize()
report(pid=os.getpid(), began=time.time())
end = time.time() + SECONDS
while time.time() < end:
    pause = time.time() + SHARE * PERIOD
    while time.time() < pause:
        product = left @ left
        torch.cuda.synchronize()
    time.sleep((1 - SHARE) * PERIOD)
report(pid=os.getpid(), ended=time.time())
"""
"""Works for ``SHARE`` of each ``PERIOD`` seconds, ``SECONDS`` long, and has ``MIB`` and some more of the memory."""

HOLD = f"""
import json, os, time
import torch
{_REPORT}
held = torch.empty(MIB << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SM_NUM_GPUS")
report(
    pid=os.getpid(), began=time.time(), cards=torch.cuda.device_count(),
    variables={{name: os.environ.get(name) for name in names}},
)
time.sleep(SECONDS)
report(pid=os.getpid(), ended=time.time())
"""
"""Has ``MIB`` of memory for ``SECONDS``, and says which GPUs it sees."""

LIBRARY = "looks_for_cuda"
LIBRARY_SOURCE = """
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""
"""A library as many are: its import asks for CUDA, after which no forked process can use it."""

USE_LIBRARY = f"""
import json, os, sys
preloaded = {LIBRARY!r} in sys.modules
import {LIBRARY}
import torch
{_REPORT}
report(preloaded=preloaded, device={LIBRARY}.DEVICE)
ones = torch.ones(1 << 20, device={LIBRARY}.DEVICE)
torch.cuda.synchronize()
report(pid=os.getpid(), preloaded=preloaded, done=True)
"""


def with_values(source: str, **values: float) -> str:
    """Put assignments before a source."""
    return "".join(f"{name.upper()} = {value!r}\n" for name, value in values.items()) + source


def printed(log: str) -> dict[str, Any]:
    """Read what a job has printed so far, later words before earlier ones."""
    found: dict[str, Any] = {}
    for line in log.splitlines():
        if line.startswith(MARK):
            found.update(json.loads(line[len(MARK) :]))
    return found
