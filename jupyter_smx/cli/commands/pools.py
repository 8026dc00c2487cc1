"""``pools``, ``extend`` and ``release``: the warm pools."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.client.client import Pools
from jupyter_smx.kernel.text.pages import format_keep_alive, pools_page
from jupyter_smx.model import duration

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _no_arguments(_: Parser) -> None:
    pass


def _list(_: Namespace, desk: CliContext) -> int:
    pools = desk.client.pools()
    desk.output.show(Pools(pools), pools_page(pools, time.time())[0])
    return exit_codes.SUCCESS


def _add_pool(parser: Parser) -> None:
    parser.add_argument("pool", metavar="POOL", help="id, name, or the beginning of one")


def _add_pool_and_duration(parser: Parser) -> None:
    _add_pool(parser)
    parser.add_argument("duration", metavar="DURATION", help="how long from now: 600, 15m, 1h")


def _extend(found: Namespace, desk: CliContext) -> int:
    pool = desk.client.set_keep_alive(found.pool, duration.parse(found.duration, "duration"))
    desk.output.show(pool, format_keep_alive(pool, time.time()))
    return exit_codes.SUCCESS


def _release(found: Namespace, desk: CliContext) -> int:
    pool = desk.client.release(found.pool)
    desk.output.show(pool, f"{pool.name}: {pool.state}.")
    return exit_codes.SUCCESS


POOLS = Subcommand("pools", "", "the warm pools", _no_arguments, _list)
EXTEND = Subcommand("extend", "POOL DURATION", "keep a pool so long from now, as 15m", _add_pool_and_duration, _extend)
RELEASE = Subcommand("release", "POOL", "let a pool go", _add_pool, _release)
