"""The contract that every engine passes: ten groups of tests behind one class, and declared, strict exceptions.

An engine's test is ten lines::

    class TestMoon(EngineContract):
        exceptions = {"test_the_longest_cluster_id_works": never("The Moon has names of 8 letters.")}

        @pytest.fixture
        def harness(self, tmp_path):
            with closing(MoonHarness(tmp_path)) as harness:
                yield harness
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

from jupyter_smx.model.errors import nearest

# Before the groups are imported, so that a failed assert there shows its values in a third party's run as well.
if "jupyter_smx.testing.groups" not in sys.modules:
    pytest.register_assert_rewrite("jupyter_smx.testing.groups")

from jupyter_smx.testing.groups.concurrency import MannersGroup
from jupyter_smx.testing.groups.entry_points import EntriesGroup
from jupyter_smx.testing.groups.identity import IdentityGroup
from jupyter_smx.testing.groups.networking import MeetingGroup
from jupyter_smx.testing.groups.observation import TruthGroup
from jupyter_smx.testing.groups.release import LeavingGroup
from jupyter_smx.testing.groups.script_mode import ScriptModeGroup
from jupyter_smx.testing.groups.stop import StoppingGroup
from jupyter_smx.testing.groups.transfer import TransferGroup
from jupyter_smx.testing.groups.warm_start import WarmthGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Excuse(NamedTuple):
    """Why an engine does not pass one test: whose turn it is, and the reason in a sentence."""

    kind: str
    reason: str


def notimpl(reason: str) -> Excuse:
    """Declare that we could do it and have not."""
    return Excuse("notimpl", reason)


def notyet(reason: str) -> Excuse:
    """Declare that the platform could do it and does not yet."""
    return Excuse("notyet", reason)


def never(reason: str) -> Excuse:
    """Declare that it makes no sense on this platform."""
    return Excuse("never", reason)


def _excused(test: Callable[..., Any], excuse: Excuse) -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(*arguments: Any, **fixtures: Any) -> None:
        await test(*arguments, **fixtures)

    run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
    marked: Callable[..., Any] = pytest.mark.xfail(strict=True, reason=f"{excuse.kind}: {excuse.reason}")(run)
    return marked


@pytest.mark.asyncio
class EngineContract(
    IdentityGroup,
    TruthGroup,
    StoppingGroup,
    TransferGroup,
    LeavingGroup,
    MannersGroup,
    WarmthGroup,
    ScriptModeGroup,
    EntriesGroup,
    MeetingGroup,
):
    """Inherit from this and give a fixture ``harness`` (:class:`jupyter_smx.testing.harness.Harness`).

    An exception that is declared and passes fails the build, so the list never grows stale.
    """

    exceptions: ClassVar[Mapping[str, Excuse]] = {}

    def __init_subclass__(cls) -> None:
        """Turn the declared exceptions into strict expected failures.

        :raises TypeError: an exception names no test.
        """
        super().__init_subclass__()
        tests = dict(inspect.getmembers(cls, inspect.iscoroutinefunction))
        for name, excuse in cls.exceptions.items():
            if name not in tests:
                raise TypeError(f"{cls.__name__}: the contract has no {name!r}. {nearest(name, tests)}")
            setattr(cls, name, _excused(tests[name], excuse))
