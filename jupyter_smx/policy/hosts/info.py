"""The hosts of a cluster as their agents describe them when they greet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.model.records.cluster import Host
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.hosts.provenance import limits_of, machine_of
from jupyter_smx.policy.preload import preload_costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_smx.model.records.cluster import Cluster


def hosts_of(cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> tuple[Host, ...]:
    """Give the hosts in the job's order; an older agent says less of itself."""
    rows = []
    given_up = {one.host: one.given_up for one in cluster.handle.hosts} if cluster.handle else {}
    for host in named_hosts(cluster.key.instance_groups):
        said = greetings[host.name]
        isolation, preload = said.get("isolation", {}), said.get("preload", {})
        rows.append(
            Host(
                name=host.name,
                group=host.group,
                instance_type=host.instance_type,
                isolation=isolation.get("mode", ""),
                isolation_reason=isolation.get("reason", ""),
                given_up=given_up.get(host.name, ()),
                limits=limits_of(said),
                python_version=str(said.get("python", "")),
                agent_version=str(said.get("version", "")),
                preloaded=tuple(preload.get("loaded", ())),
                preload_failures=dict(preload.get("failed", {})),
                preload_costs=preload_costs(preload),
                machine=machine_of(said),
            )
        )
    return tuple(rows)


def isolation_notes(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Say what of their isolation hosts lack, each thing once, as notes for the job that runs there."""
    hosts = tuple(hosts)
    whose: dict[str, list[str]] = {}
    for host in hosts:
        for sentence in host.given_up:
            whose.setdefault(sentence, []).append(host.name)
    return tuple(
        f"Given up: {sentence}" if len(names) == len(hosts) else f"Given up on {', '.join(names)}: {sentence}"
        for sentence, names in whose.items()
    )
