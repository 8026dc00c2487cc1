"""Options that a job names for Slurm: their values, what they become, and what completion offers."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

import pytest
from fake_slurm import FakeSlurm
from slurm_requests import NAME, host, request
from test_slurm_engine import acquire, engine_of
from traitlets import TraitError

from jupyter_smx.engines.remote.machine import Completed
from jupyter_smx.engines.slurm import commands, job_options, option_values, parsers, submission
from jupyter_smx.engines.slurm.client import SlurmClient
from jupyter_smx.engines.slurm.option_values import OptionValues
from jupyter_smx.engines.slurm.parsers import PartitionRow, Site
from jupyter_smx.engines.slurm.partition_store import PartitionStore
from jupyter_smx.engines.slurm.submission import AllocationTime
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

SITE = """\
physics||normal,high|normal|
physics|gpu|normal||
lab|||long|
-- 0
a100,nvlink
(null)
a100
-- 0
ReservationName=course StartTime=2026-01-01T00:00:00 Nodes=n[1-2]
ReservationName=night StartTime=2026-01-01T00:00:00
-- 0
"""
NO_SITE = "-- 0\n(null)\n-- 0\nNo reservations in the system\n-- 0\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7_200), ("1h30m", 5_400), ("02:00:00", 7_200), ("90:00", 5_400), ("1-12:00:00", 129_600), ("2-0", 172_800)],
)
def test_a_time_limit_is_a_duration_or_slurms_own_form(text: str, seconds: float) -> None:
    assert job_options.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["60", "", "0h", "two", "2h 3", "-1"])
def test_a_time_limit_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="--engine-option time"):
        job_options.check({"time": text})


@pytest.mark.parametrize(
    "options",
    [
        {"exclusive": "perhaps"},
        {"words": "--job-name=x"},
        {"words": "-J x"},
        {"words": "--nice=5 : --nodes=2"},
        {"words": "run.sh"},
        {"words": "-Jx"},
        {"words": "-a1-2"},
        {"words": "--job=x"},
        {"words": "--wait"},
        {"words": "--exclusive run.sh"},
        {"words": "--mail-type END"},
        {"words": "--"},
        {"words": "--comment='x"},
    ],
)
def test_values_that_would_break_the_job_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(RefusedError) as refused:
        job_options.check(options)
    assert refused.value.field == "engine_options"
    assert refused.value.cure.startswith("For example --engine-option ")


def test_values_that_slurm_checks_itself_are_taken() -> None:
    job_options.check({"partition": "no such", "exclusive": "True", "words": "--nice=5 --mail-type=END", "gres": "x"})


def test_words_of_the_configuration_have_the_same_form() -> None:
    with pytest.raises(RefusedError, match="words"):
        submission.plan_submission(request(), {"words": "-Jx"}, AllocationTime(), NAME)


@pytest.mark.parametrize("name", job_options.RESERVED_WORDS)
def test_options_that_the_engine_sets_are_refused_with_each_beginning(name: str) -> None:
    for word in (f"--{name}", f"--{name}=1", f"--{name[:-1]}"):
        with pytest.raises(RefusedError) as refused:
            job_options.split_words(word)
        assert "The engine sets --" in refused.value.rule


@pytest.mark.parametrize(("name", "option"), job_options.OPTION_OF_WORD.items())
def test_a_word_that_would_override_an_option_is_refused_with_that_option(name: str, option: str) -> None:
    for word in (f"--{name}", f"--{name}=1", f"--{name[:-1]}=1"):
        with pytest.raises(RefusedError) as refused:
            job_options.split_words(word)
        text = refused.value.rule + refused.value.cure
        assert option in text or "The engine sets --" in text  # a beginning may be that of several options
    with pytest.raises(RefusedError) as refused:
        job_options.split_words(f"--nice=5 --{name}=1")
    assert refused.value.rule.startswith(f"The option {option} ")
    assert option in refused.value.cure


@pytest.mark.parametrize("name", ["time-min", "deadline"])
def test_a_word_with_which_slurm_gives_less_time_is_refused(name: str) -> None:
    with pytest.raises(RefusedError) as refused:
        job_options.split_words(f"--{name}=10")
    assert refused.value.rule == f"The option time sets the time limit, which --{name} may change."
    assert "--engine-option time=2h" in refused.value.cure


def test_an_exclusive_node_for_one_user_is_a_word_since_no_option_says_it() -> None:
    assert job_options.split_words("--exclusive=user --nodelist=n1") == ["--exclusive=user", "--nodelist=n1"]


def test_a_word_of_the_configuration_that_would_override_an_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraitError, match=r"The option memory_gib of an instance type sets --mem\."):
        engine_of(FakeSlurm(), tmp_path, submit_words=["--mem=0"])


def test_options_of_a_job_become_words_and_its_time_limit() -> None:
    options = {"partition": "gpu", "exclusive": "false", "time": "2h", "words": "--nice=5"}
    wanted = request(host(options=options), options=options)
    job = submission.plan_submission(
        wanted, {"partition": "main", "exclusive": "true"}, AllocationTime(longest=60.0), NAME
    )
    words = shlex.split(commands.submit(job))
    assert {"--partition=gpu", "--time=0-02:00:00", "--nice=5"} <= {*words}
    assert not {"--exclusive", "--partition=main"} & {*words}


@pytest.mark.parametrize(
    ("configured", "of_host", "gpus"),
    [
        ("", {}, 1),
        ("", {"gres": "gpu:a100:4"}, 4),
        ("gpu:2", {}, 2),
        ("gpu:2", {"gres": "gpu:h100:8(S:0-1),fs:1"}, 8),
        ("", {"gres": "gpu"}, 1),
        ("", {"gres": "gpu:a100"}, 1),
        ("", {"gres": "gpu:a100,gpu:h100:2"}, 3),
        ("", {"gres": "fs:1"}, 0),
    ],
)
async def test_a_host_has_the_gpus_that_slurm_gives_it(
    configured: str, of_host: dict[str, str], gpus: int, tmp_path: Path
) -> None:
    slurm = FakeSlurm()
    engine = engine_of(slurm, tmp_path, gres=configured)
    wanted = request(host(gpus=1, options=of_host))
    await acquire(engine, wanted)
    assert slurm.descriptions["algo-1"]["gpus"] == gpus
    gres = [word for word in slurm.jobs[0].words if word.startswith("--gres=")]
    assert parsers.parse_gpus(gres[0].partition("=")[2])[0] == gpus


def test_the_engine_declares_the_options_and_checks_their_values(tmp_path: Path) -> None:
    engine = engine_of(FakeSlurm(), tmp_path)
    assert engine.capabilities.options == job_options.NAMES
    engine.check_options({"time": "1h"})
    with pytest.raises(RefusedError):
        engine.check_options({"time": "1"})


def test_what_a_site_has_is_read_from_its_three_parts() -> None:
    assert parsers.parse_site(SITE, Site()) == Site(
        accounts=("physics", "lab"),
        qos=("normal", "high", "long"),
        features=("a100", "nvlink"),
        reservations=("course", "night"),
    )
    known = Site(accounts=("old",), qos=("old",), features=("old",), reservations=("old",))
    assert parsers.parse_site(NO_SITE, known) == Site()


def test_a_part_of_a_site_whose_command_failed_stays() -> None:
    known = Site(accounts=("old",), qos=("old",), features=("old",), reservations=("old",))
    for cut_off in ("", "-- 127\n", "physics||normal|\n"):
        assert parsers.parse_site(cut_off, known) == known
    without_database = parsers.parse_site(NO_SITE.replace("-- 0", "-- 1", 1), known)
    assert without_database == Site(accounts=("old",), qos=("old",))
    assert parsers.parse_site(NO_SITE.rpartition("-- 0")[0], known) == Site(reservations=("old",))


def test_values_of_options_are_those_of_partitions_that_are_up() -> None:
    rows = [
        PartitionRow(name="main"),
        PartitionRow(name="gpu", gpus=4, gpu_kind="a100"),
        PartitionRow(name="gpu", gpus=1, gpu_kind="t4"),
        PartitionRow(name="closed", is_up=False),
    ]
    values = option_values.values_of(rows, Site(qos=("high",)))
    assert values["partition"] == ("main", "gpu")
    assert values["gres"] == ("gpu:a100:1", "gpu:a100:4", "gpu:t4:1")
    assert values["qos"] == ("high",)
    assert {*values} <= {*job_options.NAMES}


class SlurmWithSite(FakeSlurm):
    """A scheduler with accounts, which counts the queries of them."""

    has_slow_database = False

    async def run(self, command: str, data: bytes = b"", timeout: float = 20.0) -> Completed:
        if self.has_slow_database and "sacctmgr" in command:
            await asyncio.Event().wait()
        return await super().run(command, data, timeout)

    def _sacctmgr(self, _command: str, _data: bytes) -> Completed:
        return Completed(0, SITE.encode(), "")


async def answered() -> None:
    """Wait until what runs in the background has ended."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def test_values_are_asked_in_the_background_and_once_in_ten_minutes(tmp_path: Path) -> None:
    slurm, now = SlurmWithSite(), [0.0]
    partitions = PartitionStore(tmp_path / "partitions.json")
    values = OptionValues(SlurmClient(slurm, 1.0), partitions, tmp_path / "options.json", lambda: now[0])
    values.refresh_later()
    assert values.read()["account"] == ()
    await answered()
    for _ in range(100):
        values.refresh_later()
        assert values.read()["account"] == ("physics", "lab")
    assert (slurm.calls["sacctmgr"], slurm.calls["sinfo"]) == (1, 1)
    now[0] = option_values.MIN_AGE + 1
    values.refresh_later()
    await answered()
    assert slurm.calls["sacctmgr"] == 2


async def test_values_of_the_last_controller_are_offered_at_once(tmp_path: Path) -> None:
    first = engine_of(SlurmWithSite(), tmp_path)
    await first.option_values()
    await answered()
    second = engine_of(SlurmWithSite(), tmp_path)
    assert (await second.option_values())["qos"] == ("normal", "high", "long")
    await second.close()


async def test_completion_opens_no_connection_to_a_login_machine(tmp_path: Path) -> None:
    slurm = SlurmWithSite()
    slurm.has_connection = False
    engine = engine_of(slurm, tmp_path, login="cluster")
    await engine.option_values()
    await answered()
    assert slurm.calls == {}
    await engine.doctor()
    slurm.calls.clear()
    for _ in range(2):
        await engine.option_values()
        await answered()
    assert slurm.calls == {}
    slurm.has_connection = True
    await engine.option_values()
    await answered()
    assert "lab" in str(await engine.option_values())


async def test_a_doctor_needs_no_database_of_accounts(tmp_path: Path) -> None:
    slurm = SlurmWithSite()
    slurm.has_slow_database = True
    engine = engine_of(slurm, tmp_path)
    assert (await engine.doctor(timeout=2.0))["partitions"] == "main"
    assert (await engine.option_values())["partition"] == ("main",)
    await engine.close()


async def test_completion_without_an_answer_of_slurm_has_what_is_known(tmp_path: Path) -> None:
    slurm = SlurmWithSite()
    slurm.is_away = True
    engine = engine_of(slurm, tmp_path)
    await engine.option_values()
    await answered()
    assert (await engine.option_values())["exclusive"] == ("true", "false")
    await engine.close()
