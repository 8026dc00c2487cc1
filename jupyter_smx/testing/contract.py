"""The contract that every engine passes: ten groups of tests behind one class, and strict, declared exceptions to it.

An engine's test is ten lines::

    class TestMoon(EngineContract):
        expected_failures = {"test_the_longest_cluster_id_works": never("The Moon has names of 8 letters.")}

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

from jupyter_smx.model.errors import suggest_names

# Before the groups are imported, so that a failed assert there shows its values in a third party's run as well.
if "jupyter_smx.testing.groups" not in sys.modules:
    pytest.register_assert_rewrite("jupyter_smx.testing.groups")

from jupyter_smx.testing.groups.concurrency import ConcurrencyGroup
from jupyter_smx.testing.groups.entry_points import EntryPointsGroup
from jupyter_smx.testing.groups.identity import IdentityGroup
from jupyter_smx.testing.groups.networking import NetworkingGroup
from jupyter_smx.testing.groups.observation import ObservationGroup
from jupyter_smx.testing.groups.release import ReleaseGroup
from jupyter_smx.testing.groups.script_mode import ScriptModeGroup
from jupyter_smx.testing.groups.stop import StopGroup
from jupyter_smx.testing.groups.transfer import TransferGroup
from jupyter_smx.testing.groups.warm_start import WarmStartGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ExpectedFailure(NamedTuple):
    """Why an engine does not pass one test: the kind of the reason, and a sentence."""

    kind: str
    reason: str


def notimpl(reason: str) -> ExpectedFailure:
    """Declare that we could do it and have not."""
    return ExpectedFailure("notimpl", reason)


def notyet(reason: str) -> ExpectedFailure:
    """Declare that the platform could do it and does not yet."""
    return ExpectedFailure("notyet", reason)


def never(reason: str) -> ExpectedFailure:
    """Declare that it makes no sense on this platform."""
    return ExpectedFailure("never", reason)


def _mark_xfail(test: Callable[..., Any], excuse: ExpectedFailure) -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(*arguments: Any, **fixtures: Any) -> None:
        await test(*arguments, **fixtures)

    run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
    marked: Callable[..., Any] = pytest.mark.xfail(strict=True, reason=f"{excuse.kind}: {excuse.reason}")(run)
    return marked


@pytest.mark.asyncio
class EngineContract(
    IdentityGroup,
    ObservationGroup,
    StopGroup,
    TransferGroup,
    ReleaseGroup,
    ConcurrencyGroup,
    WarmStartGroup,
    ScriptModeGroup,
    EntryPointsGroup,
    NetworkingGroup,
):
    """Inherit from this and give a fixture ``harness`` (:class:`jupyter_smx.testing.harness.Harness`).

    An exception that is declared and passes fails the build, so the list never grows stale.
    """

    expected_failures: ClassVar[Mapping[str, ExpectedFailure]] = {}

    def __init_subclass__(cls) -> None:
        """Mark each test in ``expected_failures`` as one that must fail.

        :raises TypeError: an exception names no test.
        """
        super().__init_subclass__()
        tests = dict(inspect.getmembers(cls, inspect.iscoroutinefunction))
        for name, excuse in cls.expected_failures.items():
            if name not in tests:
                raise TypeError(f"{cls.__name__}: the contract has no {name!r}. {suggest_names(name, tests)}")
            setattr(cls, name, _mark_xfail(tests[name], excuse))
