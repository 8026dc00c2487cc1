"""``--network-isolation``: from a line, a function or a record into the wish, and into what SageMaker is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from exported_jobs import TYPE, job, run

import jupyter_smx as smx
from jupyter_smx.kernel.options.help_pages import manual
from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.options.table import SPELLINGS
from jupyter_smx.model.records.comparison import compare
from jupyter_smx.model.results.provenance import HostProvenance, Provenance, SeedNote
from jupyter_smx.model.spec.distribution import Distribution

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_controller import ScriptedController

    from jupyter_smx.model.spec.job_spec import JobSpec


def last_spec(controller: ScriptedController) -> JobSpec:
    return [*controller.jobs.values()][-1].spec


@pytest.mark.usefixtures("front_end")
def test_every_front_door_has_it(shell: Any, controller: ScriptedController) -> None:
    for line in ("%%train --network-isolation", "%%process --network-isolation"):
        assert shell.run_cell(f"{line}\npass").success
        assert last_spec(controller).network_isolation
    assert shell.run_cell("%%train\npass").success
    assert not last_spec(controller).network_isolation
    smx.train("pass", network_isolation=True)
    assert last_spec(controller).network_isolation
    smx.process("pass", network_isolation=True)
    assert last_spec(controller).network_isolation
    smx.remote(network_isolation=True)(abs).submit(1)
    assert last_spec(controller).network_isolation
    smx.train("pass")
    assert not last_spec(controller).network_isolation


def test_it_is_offered_and_explained() -> None:
    assert parse("process", "--network-isolation").flag("network_isolation")
    assert "--network-isolation" in SPELLINGS
    assert "--network-isolation\n      Allow the hosts to reach only each other" in manual("train")
    assert ":param network_isolation:" in (smx.train.__doc__ or "")


@pytest.mark.parametrize(
    ("wish", "call"),
    [
        ({}, "Estimator"),
        ({"kind": "process"}, "ScriptProcessor"),
        ({"kind": "process", "distribution": Distribution(runner="pyspark")}, "PySparkProcessor"),
        ({"contract": "v3"}, "ModelTrainer"),
    ],
)
@pytest.mark.parametrize("isolated", [True, False])
def test_an_export_asks_sagemaker_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: dict[str, Any], call: str, *, isolated: bool
) -> None:
    export(job(**wish, instance_groups=(TYPE,), network_isolation=isolated), tmp_path / "out")
    asked = run(tmp_path / "out", monkeypatch, "model_trainer.py" if call == "ModelTrainer" else "sagemaker_job.py")
    found, config = asked.of(call), "networking" if call == "ModelTrainer" else "network_config"
    if call == "Estimator":
        assert found.get("enable_network_isolation") == (True if isolated else None)
    else:
        assert (config in found) is isolated
        assert not isolated or found[config].asked == {"enable_network_isolation": True}


def test_two_jobs_differ_in_it_and_in_what_their_hosts_gave_up() -> None:
    seeds = SeedNote(sentence="")
    hosts = [(HostProvenance(host="algo-1"),), (HostProvenance(host="algo-1", given_up=("It is root.",)),)]
    found = [Provenance(code_sha256="0", seeds=seeds, hosts=one) for one in hosts]
    before, after = (
        smx_job(provenance, isolated=isolated) for provenance, isolated in zip(found, (False, True), strict=True)
    )
    assert {change.text() for change in compare(before, after).changes} >= {
        "option network isolation (new: yes)",
        "host algo-1 limitations (new: It is root.)",
    }


def smx_job(provenance: Provenance, *, isolated: bool) -> Any:
    from msgspec.structs import replace  # noqa: PLC0415 - only here

    return replace(job(network_isolation=isolated), provenance=provenance)
