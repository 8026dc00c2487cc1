"""``pools``, ``extend``, ``release``, ``types`` and ``doctor``: hosts, what they can be, and what works here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_smx.cli import conventions
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.client.client import Pools
from jupyter_smx.kernel.text.pages import facts_page, format_keep_alive, pools_page, types_page
from jupyter_smx.model import duration

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.subcommand_parser import Parser


def _no_arguments(_: Parser) -> None:
    pass


def _pools(_: Namespace, context: CliContext) -> int:
    pools = context.client.pools()
    context.output.show(Pools(pools), pools_page(pools, time.time())[0])
    return conventions.SUCCESS


def _add_pool(parser: Parser) -> None:
    parser.add_argument("pool", metavar="POOL", help="id, name, or the beginning of one")


def _add_pool_and_duration(parser: Parser) -> None:
    _add_pool(parser)
    parser.add_argument("duration", metavar="DURATION", help="how long from now: 600, 15m, 1h")


def _extend(found: Namespace, context: CliContext) -> int:
    pool = context.client.set_keep_alive(found.pool, duration.parse(found.duration, "duration"))
    context.output.show(pool, format_keep_alive(pool, time.time()))
    return conventions.SUCCESS


def _release(found: Namespace, context: CliContext) -> int:
    pool = context.client.release(found.pool)
    context.output.show(pool, f"{pool.name}: {pool.state}.")
    return conventions.SUCCESS


POOLS = Subcommand("pools", "", "the warm pools", _no_arguments, _pools)
EXTEND = Subcommand("extend", "POOL DURATION", "keep a pool so long from now, as 15m", _add_pool_and_duration, _extend)
RELEASE = Subcommand("release", "POOL", "let a pool go", _add_pool, _release)


def _instance_types(_: Namespace, context: CliContext) -> int:
    found = context.client.instance_types()
    context.output.show(found, types_page(found)[0])
    return conventions.SUCCESS


INSTANCE_TYPES = Subcommand("types", "", "what hosts can be, and what they cost", _no_arguments, _instance_types)


def _doctor_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--fix", action="store_true", help="end what engines still have of clusters that nobody has a record of"
    )


def _doctor(arguments: Namespace, context: CliContext) -> int:
    from jupyter_smx.kernel.display.doctor import collect_facts  # noqa: PLC0415 - reads package metadata, which nobody else needs

    facts = collect_facts(context.client)
    if arguments.fix and isinstance(facts["controller"], dict):
        facts["ended"] = context.client.fix() or "nothing was left of any cluster"
    context.output.show(facts, facts_page(facts)[0])
    return conventions.SUCCESS if isinstance(facts["controller"], dict) else conventions.NO_CONTROLLER


DOCTOR = Subcommand("doctor", "[--fix]", "what is found and what works here", _doctor_arguments, _doctor)
