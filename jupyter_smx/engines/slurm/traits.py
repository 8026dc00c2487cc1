"""The configuration of the Slurm engine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import msgspec
from traitlets import Bool, Dict, Float, List, TraitError, Unicode, validate

from jupyter_smx.engines.remote.remote_base import RemoteEngineBase
from jupyter_smx.engines.slurm import job_options, node_types
from jupyter_smx.engines.slurm.node_types import NodeType
from jupyter_smx.engines.slurm.submission import AllocationTime
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traitlets import Bunch

    from jupyter_smx.engines.base import Capabilities
    from jupyter_smx.model.spec.instance import InstanceType


class SlurmTraits(RemoteEngineBase):
    """What the engine asks Slurm for, and where Slurm's programs run."""

    login = Unicode(
        "",
        help=(
            "Machine on which Slurm's programs run, as ssh knows it; empty means this one. The options of the ssh "
            "client are those of c.SshEngine."
        ),
    ).tag(config=True)
    programs = Unicode("", help="Folder of Slurm's programs on that machine; empty means that its PATH has them.").tag(
        config=True
    )
    variables = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="Environment variables of Slurm's programs on that machine, such as SLURM_CONF.",
    ).tag(config=True)
    partition = Unicode("", help="Partition of jobs, or several with commas; empty means the default one.").tag(
        config=True
    )
    account = Unicode("", help="Account that is charged; empty means the user's default account.").tag(config=True)
    qos = Unicode("", help="Quality of service; empty means the default of the account.").tag(config=True)
    gres = Unicode(
        "", help="Generic resources of each node, such as ``gpu:a100:1``; empty means the GPUs of the instance type."
    ).tag(config=True)
    constraint = Unicode("", help="Features that nodes must have, such as ``a100|h100``.").tag(config=True)
    reservation = Unicode("", help="Reservation in which jobs run.").tag(config=True)
    exclusive = Bool(
        default_value=False, help="Whether a host has its node for itself, whatever its instance type says."
    ).tag(config=True)
    heterogeneous = Bool(
        default_value=True,
        help=(
            "Whether several instance groups are the components of one heterogeneous job. False: each group is a batch "
            "job of its own, as it is by itself where Slurm refuses a heterogeneous one."
        ),
    ).tag(config=True)
    renew = Bool(
        default_value=False,
        help=(
            "Whether another allocation is queued before the end of one, if its pool is kept longer, so that the pool "
            "goes on there."
        ),
    ).tag(config=True)
    renew_before = Float(
        600.0,
        min=0.0,
        help=(
            "Seconds before the notice of an allocation in which the next one is queued, at most half of its time. "
            "Both cost node hours if the next one starts early while the pool is busy."
        ),
    ).tag(config=True)
    submit_words = List(Unicode(), help="More words for sbatch, such as ``--mail-type=END``.").tag(config=True)
    node_types = Dict(
        value_trait=Dict(),
        key_trait=Unicode(),
        help=(
            "Instance types by name, each with options: cpus, memory_gib, gpus, partition, account, qos, gres, "
            "constraint, reservation, exclusive, heterogeneous, renew, time, words, price_per_hour. Nodes of the "
            "partitions are types without it."
        ),
    ).tag(config=True)
    max_allocation = Float(
        0.0,
        min=0.0,
        help=(
            "Seconds that an allocation may last; 0 means the limit of the partition. A job asks for its maximum run "
            "time and its keep-alive."
        ),
    ).tag(config=True)
    notice_time = Float(120.0, min=0.0, help="Seconds before the end of an allocation in which jobs get SIGTERM.").tag(
        config=True
    )
    shared_home = Bool(
        default_value=False,
        help="Whether the home folder of the login machine is that of the nodes.",
    ).tag(config=True)
    hold_results = Float(
        900.0,
        min=0.0,
        help=(
            "Seconds for which an allocation is held after its keep-alive while results were not read. Where the home "
            "is shared, results are copied there instead."
        ),
    ).tag(config=True)
    observe_interval = Float(
        30.0,
        min=1.0,
        help=(
            "Seconds between two looks at the jobs of the user, one for all clusters. A stream that breaks is looked "
            "at sooner, at most once in a sixth of it."
        ),
    ).tag(config=True)
    command_timeout = Float(30.0, min=1.0, help="Seconds after which a program of Slurm is taken as unanswered.").tag(
        config=True
    )

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of a remote engine, and the options that a job may name."""
        return msgspec.structs.replace(super().capabilities, options=job_options.NAMES)

    def check_options(self, options: Mapping[str, str]) -> None:
        """Check values of ``--engine-option``.

        :raises RefusedError: names the option and the cure.
        """
        job_options.check(options)

    @validate("submit_words")
    def _check_submit_words(self, proposal: Bunch) -> list[str]:
        _check_options("submit_words", {"words": shlex.join(proposal.value)})
        return list(proposal.value)

    @validate("node_types")
    def _check_node_types(self, proposal: Bunch) -> dict[str, dict[str, object]]:
        try:
            node_types.configured_types(msgspec.convert(proposal.value, dict[str, NodeType]))
        except msgspec.ValidationError as problem:
            raise TraitError(f"node_types: the options of a type are invalid: {problem}") from problem
        for name, options in proposal.value.items():
            texts = {option: str(options[option]) for option in ("time", "words") if options.get(option)}
            _check_options(f"node_types: {name}", texts)
        return dict(proposal.value)

    def configured_types(self) -> list[InstanceType]:
        """Return the instance types of the configuration."""
        return node_types.configured_types(msgspec.convert(self.node_types, dict[str, NodeType]))

    def job_options(self) -> dict[str, str]:
        """Return the configured options of all jobs, by the names that instance types use."""
        options = {
            "partition": str(self.partition),
            "account": str(self.account),
            "qos": str(self.qos),
            "gres": str(self.gres),
            "constraint": str(self.constraint),
            "reservation": str(self.reservation),
            "exclusive": "true" if self.exclusive else "",
            "heterogeneous": "" if self.heterogeneous else "false",
            "renew": "true" if self.renew else "",
            "words": shlex.join(self.submit_words),
        }
        return {name: value for name, value in options.items() if value}

    def allocation_time(self) -> AllocationTime:
        """Return the times of an allocation."""
        return AllocationTime(notice=float(self.notice_time), longest=float(self.max_allocation))


def _check_options(where: str, options: Mapping[str, str]) -> None:
    """Check values of the configuration, which each job would be refused for.

    :raises TraitError: has ``where``, the value and the rule.
    """
    try:
        job_options.check(options)
    except RefusedError as error:
        raise TraitError(f"{where}: {error.value} is not possible. {error.rule}") from error
