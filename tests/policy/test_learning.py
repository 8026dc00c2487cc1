"""What an idle host should import for the next job: what the last one needed and the host has not."""

from __future__ import annotations

import pytest
from draws import a_host
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.records.cluster import PreloadCost
from jupyter_smx.model.results.reports import Why
from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.preload import (
    EXCLUDED_PACKAGES,
    import_seconds,
    note_missing_preloads,
    preload_allowed,
    preload_candidates,
    preload_costs,
    preload_notes,
)

NAMES = st.sampled_from(["numpy", "torch", "torch.nn", "sklearn", "sklearn.svm", "json", "os.path", "mine"])
PACKAGES = st.sampled_from(["numpy", "torch", "sklearn", "mine"])


def test_a_host_learns_what_the_code_asks_for_and_what_it_had_imported_besides() -> None:
    assert preload_candidates(("sklearn.svm", "json"), ("sklearn", "numpy"), a_host(preloaded=())) == (
        "sklearn.svm",
        "numpy",
    )


def test_what_is_there_or_failed_before_is_not_tried_again() -> None:
    host = a_host(preloaded=("numpy",), preload_failures={"torch": "it spoils the process"})
    assert preload_candidates(("numpy", "torch.nn"), ("numpy", "torch"), host) == ()


def test_what_the_code_names_but_no_installer_brought_is_not_learnt() -> None:
    assert preload_candidates(("mine.part", "sklearn.svm"), ("sklearn",), a_host()) == ("sklearn.svm",)


def test_what_is_never_to_be_preloaded_is_neither_learnt_nor_tried_at_a_launch() -> None:
    assert preload_candidates(("jax.numpy", "numpy"), ("jax", "numpy"), a_host(), ("jax",)) == ("numpy",)
    assert preload_allowed(("jax.numpy", "numpy"), ("jax",)) == ("numpy",)
    assert preload_allowed(("mpi4py",), Limits().preload_never) == ()
    assert all(reason for reason in EXCLUDED_PACKAGES.values())


def test_what_reads_variables_is_imported_once_they_are_sent_or_received() -> None:
    assert preload_candidates((), (), a_host()) == ()
    assert preload_candidates((), ("numpy",), a_host(), has_values=True) == ("numpy", "cloudpickle")
    assert preload_candidates((), (), a_host(), ("cloudpickle",), has_values=True) == ()
    missing = a_host(preload_failures={"cloudpickle": "it is not installed"})
    assert preload_candidates((), (), missing, has_values=True) == ()


COSTS = {
    "numpy": PreloadCost(seconds=0.2, bytes=20),
    "sklearn": PreloadCost(seconds=1.5, bytes=60, needs=("numpy",)),
    "torch": PreloadCost(seconds=3.0, bytes=90),
}


def test_the_time_of_imports_is_what_they_took_here_with_what_they_build_on_and_nothing_else() -> None:
    host = a_host(preloaded=tuple(COSTS), preload_costs=COSTS)
    assert import_seconds(("sklearn.svm",), host) == pytest.approx(1.7)
    assert import_seconds(("sklearn.svm", "numpy"), host) == pytest.approx(1.7)
    assert import_seconds(("json",), host) == 0


def test_the_reason_says_what_was_there_how_long_it_took_and_what_was_not_and_why() -> None:
    failures = {"bad": "it takes 300 MiB of the 256 MiB that all preloads may take here", "other": "unasked for"}
    host = a_host(preloaded=("sklearn.svm", "numpy"), preload_costs=COSTS, preload_failures=failures)
    notes = preload_notes(("sklearn", "bad", "jax", "json", "banned"), host, ("jax", "banned"))
    assert notes == (
        "Already imported: sklearn.",
        "Not preloaded: bad, it takes 300 MiB of the 256 MiB that all preloads may take here.",
        "Not preloaded: banned, the administrator excluded it (preload_never).",
        f"Not preloaded: jax, {EXCLUDED_PACKAGES['jax']}.",
    )
    ready = a_host(preloaded=("sklearn", "numpy"), preload_costs=COSTS)
    assert preload_notes(("sklearn",), ready, ()) == ("Already imported: sklearn (about 1.7 s of imports).",)
    assert preload_notes(("sklearn",), None, ()) == ()


def test_what_a_job_did_not_find_is_no_more_said_to_be_imported() -> None:
    host = a_host(preloaded=("sklearn", "numpy", "torch"), preload_costs=COSTS)
    imports = ("sklearn", "torch")
    why = Why(start="warm", sentence="Warm.", notes=("first", *preload_notes(imports, host, ()), "last"))
    reason = "Not preloaded: torch, its import reads TORCH_LOGS, which this job changes."
    said = [{"modules": ["torch"], "reasons": [reason]}, {}, {"modules": [], "reasons": [reason]}]
    told = note_missing_preloads(why, imports, host, said)
    assert told.notes == ("first", "Already imported: sklearn (about 1.7 s of imports).", "last", reason)
    assert note_missing_preloads(told, imports, host, said) == told
    everything = [{"modules": list(host.preloaded), "reasons": [reason]}]
    assert note_missing_preloads(why, imports, host, everything).notes == ("first", "last", reason)
    assert note_missing_preloads(why, imports, None, [{"modules": [], "reasons": []}]) is why


def test_costs_are_read_from_what_an_agent_says_or_left_out() -> None:
    said = {"numpy": {"seconds": 0.2, "bytes": 20, "needs": [], "news": 1}}
    assert preload_costs({"costs": said}) == {"numpy": COSTS["numpy"]}
    assert preload_costs({}) == {}
    assert preload_costs({"costs": {"numpy": "much"}}) == {}


@given(st.lists(NAMES), st.lists(PACKAGES), st.sets(NAMES), st.sets(NAMES), st.sets(PACKAGES))
def test_nothing_known_unwanted_or_of_the_standard_library_is_ever_asked_for(
    asked: list[str], imported: list[str], loaded: set[str], failed: set[str], never: set[str]
) -> None:
    host = a_host(preloaded=tuple(loaded), preload_failures=dict.fromkeys(failed, "reason"))
    chosen = preload_candidates(asked, imported, host, never)
    assert len(set(chosen)) == len(chosen)
    assert not set(chosen) & (loaded | failed | {"json", "os.path"})
    assert not {name.partition(".")[0] for name in chosen} & never
    assert {name.partition(".")[0] for name in chosen} <= set(imported)
