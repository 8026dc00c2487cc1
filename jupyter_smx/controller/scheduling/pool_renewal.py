"""Requests the next allocation of pools before the present one ends, and hands them over; policy decides when."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.controller.errors import log_and_continue
from jupyter_smx.policy.lifecycle import renewal
from jupyter_smx.policy.lifecycle.renewal import RenewalStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class PoolRenewals:
    """Does the step of policy for each pool with a renewal; ``reconcile`` does the next step of a cluster."""

    def __init__(
        self, live_state: LiveState, agents: Agents, new_id: Callable[[], str], reconcile: Callable[[str], None]
    ) -> None:
        self._live_state = live_state
        self._agents = agents
        self._new_id = new_id
        self._reconcile = reconcile

    def check_all(self) -> None:
        """Do the next step of every pool."""
        for pool in [*self._live_state.clusters.values()]:
            if pool.handle is not None and pool.handle.renewal is not None:
                with log_and_continue(_log, "pool={} renewal failed", pool.name()):
                    self._check(pool)

    def give_back(self, successor: Cluster) -> Cluster:
        """Release hosts that continue a pool before a job has them, or their request; return the record."""
        ending = replace(successor, expires_at=self._live_state.clock())
        self._live_state.save(clusters=[ending, *self._not_renewed(successor)])
        self._reconcile(successor.id)
        return ending

    def decline(self, successor: Cluster) -> None:
        """Request no other hosts for the pool that these continue, because the user released them."""
        self._live_state.save(clusters=self._not_renewed(successor))

    def _not_renewed(self, successor: Cluster) -> list[Cluster]:
        return renewal.not_renewed(self._live_state.clusters.get(successor.renewal_of), successor)

    def _check(self, pool: Cluster) -> None:
        job, now = self._live_state.jobs.get(pool.job), self._live_state.clock()
        successor = self._live_state.clusters.get(pool.renewed_by)
        step = renewal.next_renewal_step(pool, job, successor, now)
        if step is RenewalStep.REQUEST:
            fresh = renewal.successor_of(pool, job, self._new_id(), now)
            # The intention to launch is on disk before the launch: a new controller must find it.
            self._live_state.save(clusters=[fresh, replace(pool, renewed_by=fresh.id)], durable=True)
            self._reconcile(fresh.id)
        elif successor is None:
            self._allow_another(pool, now)
        elif step is RenewalStep.SET_END:
            self._set_end(pool, job, successor)
        elif step is RenewalStep.WITHDRAW:
            self._live_state.save(clusters=renewal.withdraw(pool, successor, now))
            self._reconcile(successor.id)
        elif step is RenewalStep.HAND_OVER:
            self._hand_over(pool, successor)

    def _set_end(self, pool: Cluster, job: Job | None, successor: Cluster) -> bool:
        """Keep a successor as long as its pool; return False if its agents cannot be reached now."""
        until, now = renewal.kept_until(pool, job), self._live_state.clock()
        if until is None or (successor.hosts and not self._agents.is_open(successor.id)):
            return False
        # The agents first: they end by their own clock.
        for host in successor.hosts:
            self._agents.stream(successor.id, host.name).set_deadline(seconds=max(1.0, until - now))
        seconds = renewal.keep_seconds(pool, job)
        self._live_state.amend_cluster(successor.id, expires_at=until, keep_alive=seconds)
        return True

    def _hand_over(self, pool: Cluster, successor: Cluster) -> None:
        if self._set_end(pool, None, successor):
            reason = f"Pool {successor.name()} continues it in the next allocation."
            self._live_state.release_pool(pool, reason, is_continued=True)
            self._reconcile(pool.id)

    def _allow_another(self, pool: Cluster, now: float) -> None:
        if pool.renewed_by and renewal.may_repeat(self._live_state.store.cluster(pool.renewed_by), now):
            self._live_state.amend_cluster(pool.id, renewed_by="")
