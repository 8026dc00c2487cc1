"""The subcommands about hosts: pools, instance types, and the check of the installation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_smx.kernel.client.client import Pools
from jupyter_smx.kernel.subcommands.declaration import (
    FAILURE,
    NO_CONTROLLER,
    POOL,
    SUCCESS,
    Argument,
    Result,
    Subcommand,
)
from jupyter_smx.kernel.text.pages import facts_page, format_keep_alive, pools_page, text_page, types_page
from jupyter_smx.model import duration

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.subcommands.declaration import Surface


def _pools(_: Namespace, surface: Surface) -> Result:
    pools = surface.client.pools()
    return Result(Pools(pools), pools_page(pools, time.time()))


def _extend(found: Namespace, surface: Surface) -> Result:
    pool = surface.client.set_keep_alive(found.pool, duration.parse(found.duration, "duration"))
    return Result(pool, text_page(format_keep_alive(pool, time.time())))


def _release(found: Namespace, surface: Surface) -> Result:
    pool = surface.client.release(found.pool)
    return Result(pool, text_page(f"{pool.name}: {pool.state}."))


def _types(_: Namespace, surface: Surface) -> Result:
    listing = surface.client.instance_types()
    return Result(listing, types_page(listing))


def _doctor(found: Namespace, surface: Surface) -> Result:
    # It reads package metadata, which few need.
    from jupyter_smx.kernel.display.doctor import collect_facts, has_problem  # noqa: PLC0415

    if found.engine:
        removed = {"removed": surface.client.fix(found.engine) or "nothing was left"} if found.fix else {}
        facts = surface.client.doctor(found.engine) | removed
        return Result(facts, facts_page(facts), FAILURE if has_problem(facts) else SUCCESS)
    facts = collect_facts(surface.client)
    is_running = isinstance(facts["controller"], dict)
    if found.fix and is_running:
        facts["removed"] = surface.client.fix() or "nothing was left of any cluster"
    return Result(facts, facts_page(facts), SUCCESS if is_running else NO_CONTROLLER)


POOLS = Subcommand("pools", "list the warm pools", _pools)
EXTEND = Subcommand(
    "extend",
    "extend a pool, e.g. 15m",
    _extend,
    (
        POOL,
        Argument(name="duration", metavar="DURATION", help="how long from now: 600, 15m, 1h", required="always"),
    ),
)
RELEASE = Subcommand("release", "release a pool", _release, (POOL,))
TYPES = Subcommand("types", "list instance types and prices", _types)
DOCTOR = Subcommand(
    "doctor",
    "check the installation",
    _doctor,
    (
        Argument(
            name="engine",
            spellings=("--engine",),
            metavar="ENGINE",
            completion="engine",
            help="look at one engine and its machines, e.g. ssh:gpu-box",
        ),
        Argument(
            name="fix",
            spellings=("--fix",),
            help="remove hosts of clusters without a record, and files of ended clusters on other machines",
        ),
    ),
)
