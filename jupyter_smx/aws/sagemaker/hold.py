"""Decide how long an answer of Describe is held: until the job ends, for clients that would sleep for long. Pure.

=================================  =====================================================================
client                             its Describe of a job in progress
=================================  =====================================================================
a waiter of boto3 or the CLI       is held for 45 seconds at most; it would look again after 60 or 120
an SDK or Airflow                  the first one after the create is held for 10 seconds at most
a boto3 older than 1.38            the same: its waiters do not say what they are
any of these, from its second try  is answered at once: it may read no answer for as long as that
all others                         is answered at once
=================================  =====================================================================

The User-Agent says which client asks: features stand behind ``m/``, and ``B`` is a waiter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
    from jupyter_smx.aws.service import Caller

_FEATURES = re.compile(r"(?:^|\s)m/(?P<features>[^\s#;]+)")
_WAITER = "B"
_BOTOCORE = re.compile(r"(?:^|\s)md/Botocore#1\.(?P<minor>\d+)")
_FIRST_WITH_FEATURES = 38
"""The minor version of botocore 1 whose waiters surely say what they are; 1.37.0 does not, 1.37.20 does."""
_SDK = re.compile(r"(?:^|\s)(?:lib/)?(?:AWS-SageMaker|Airflow/)")


def is_waiter(user_agent: str) -> bool:
    """Return True if a waiter sends the request."""
    found = _FEATURES.search(user_agent)
    return found is not None and _WAITER in found["features"].split(",")


def is_sdk(user_agent: str) -> bool:
    """Return True if an SDK of SageMaker, or Airflow, sends the request."""
    return _SDK.search(user_agent) is not None


def is_old(user_agent: str) -> bool:
    """Return True if a waiter of this client would not say that it is one."""
    found = _BOTOCORE.search(user_agent)
    return found is not None and int(found["minor"]) < _FIRST_WITH_FEATURES


class FirstDescribes:
    """The jobs that were created here and that no SDK has described yet."""

    def __init__(self) -> None:
        self._jobs: set[str] = set()

    def add(self, job: str) -> None:
        """Note that a job was created."""
        self._jobs.add(job)

    def take(self, job: str) -> bool:
        """Return True the first time after the job was created."""
        if job not in self._jobs:
            return False
        self._jobs.remove(job)
        return True


def hold_seconds(caller: Caller, job: str, first: FirstDescribes, settings: SageMakerSettings) -> float:
    """Return for how many seconds an answer may be held; 0 for at once."""
    if caller.attempt > 1:  # its read timeout may be shorter than any hold, and the next try its last one
        return 0.0
    if is_waiter(caller.user_agent):
        return settings.waiter_hold
    sleeps_long = is_sdk(caller.user_agent) or is_old(caller.user_agent)
    return settings.hold if sleeps_long and first.take(job) else 0.0
