"""The variables by which CUDA and ROCm are told which GPUs a process may see."""

from __future__ import annotations

from typing import Dict, List, Mapping

VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def visibility_variables(gpus: List[int], environ: Mapping[str, str]) -> Dict[str, str]:
    """Show a job its GPUs only; nothing is said where it was given none.

    ``gpus`` are numbers among those that this host sees, which may be some of the machine's, by number or by name.
    """
    found = {}
    for name in VARIABLES if gpus else ():
        here = [word.strip() for word in environ.get(name, "").split(",") if word.strip()]
        found[name] = ",".join(here[gpu] if gpu < len(here) else str(gpu) for gpu in gpus)
    return found
