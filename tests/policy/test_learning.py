"""What an idle host should import for the next job: what the last one needed and the host has not."""

from __future__ import annotations

from draws import a_host
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.policy.learning import worth_learning

NAMES = st.sampled_from(["numpy", "torch", "torch.nn", "sklearn", "sklearn.svm", "json", "os.path", "mine"])
PACKAGES = st.sampled_from(["numpy", "torch", "sklearn", "mine"])


def test_a_host_learns_what_the_code_asks_for_and_what_it_had_imported_besides() -> None:
    assert worth_learning(("sklearn.svm", "json"), ("sklearn", "numpy"), a_host(preloaded=())) == (
        "sklearn.svm",
        "numpy",
    )


def test_what_is_there_or_failed_before_is_not_tried_again() -> None:
    host = a_host(preloaded=("numpy",), preload_failures={"torch": "it spoils the process"})
    assert worth_learning(("numpy", "torch.nn"), ("numpy", "torch"), host) == ()


@given(st.lists(NAMES), st.lists(PACKAGES), st.sets(NAMES), st.sets(NAMES))
def test_nothing_known_and_nothing_of_the_standard_library_is_ever_asked_for_twice(
    asked: list[str], imported: list[str], loaded: set[str], failed: set[str]
) -> None:
    host = a_host(preloaded=tuple(loaded), preload_failures=dict.fromkeys(failed, "reason"))
    chosen = worth_learning(asked, imported, host)
    assert len(set(chosen)) == len(chosen)
    assert not set(chosen) & (loaded | failed | {"json", "os.path"})
