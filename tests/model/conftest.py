"""Random tests of policy: the same examples each time, unless ``JUPYTER_SMX_RANDOM`` asks for new and many ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("random", deadline=None, max_examples=5_000, suppress_health_check=list(HealthCheck))
settings.load_profile("random" if os.environ.get("JUPYTER_SMX_RANDOM") else "same")
