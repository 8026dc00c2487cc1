"""The page on where a result comes from: what people read there, and what they do not."""

from __future__ import annotations

from exported_jobs import job
from msgspec.structs import replace

from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.model.results.provenance import Provenance, SeedNote


def test_hyperparameters_are_on_it_and_no_password_of_a_url() -> None:
    ran = job(hyperparameters={"lr": "0.1", "db": "postgres://me:hunter2@host/db"})
    found = Provenance(code_sha256="0", seeds=SeedNote(sentence=""))
    for page in provenance_page(replace(ran, provenance=found)):
        assert "hunter2" not in page
        assert "postgres://me:…@host/db" in page
        assert "0.1" in page
