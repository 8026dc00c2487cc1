"""Environments: equal wishes have one name, different ones never; and what is said of them in words."""

from __future__ import annotations

import pytest
from draws import NOW, a_cluster, a_job, a_key, a_spec, environments
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.controller.scheduling import run_request
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.lifecycle import environment
from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.scheduling import placement, reuse

PYTHON = "/py"


def made(*lines: str, only: bool = False, version: str = "3.11") -> PythonEnvironment | None:
    spec = a_spec(requirements=lines, requirements_only=only, python_version=version)
    return environment.environment_of(spec)


def name(*lines: str, **fields: bool) -> str:
    found = made(*lines, **fields)
    assert found is not None
    return environment.environment_id(PYTHON, found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("numpy", "pandas"), ("pandas", "numpy")),
        (("numpy",), ("numpy", "", "numpy")),
        (("Scikit_Learn >= 1.5 , <2",), ("scikit-learn<2,>=1.5",)),
        (("torch[b,a]==2",), ("torch[a, b] == 2",)),
        (("a; python_version<'3.12'",), ('a ;python_version < "3.12"',)),
        (("-c  numpy < 2", "b"), ("b", "-c numpy<2")),
    ],
)
def test_what_means_the_same_has_one_name(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert name(*one) == name(*other)


@pytest.mark.parametrize(
    "other",
    [("numpy==2",), ("numpy", "pandas"), ("-c numpy",), ("numpy", "--pre"), ("numpy; python_version<'3'",)],
)
def test_what_means_something_else_has_another_name(other: tuple[str, ...]) -> None:
    assert name("numpy") != name(*other)


def test_the_order_of_options_counts_and_that_of_requirements_does_not() -> None:
    first, second = "--index-url https://a.example/simple", "--extra-index-url https://b.example/simple"
    assert name(first, second, "x") != name(second, first, "x")
    assert name("x", first, second) == name(first, "x", second)


def test_content_and_hashes_behind_a_line_count() -> None:
    assert name("/w/pkg # content aa") != name("/w/pkg # content bb")
    assert name("a==1 --hash=sha256:aa") != name("a==1 --hash=sha256:bb")


def test_base_version_and_isolation_are_part_of_the_name() -> None:
    plain = PythonEnvironment(requirements=("a",), python_version="3.11")
    names = {
        environment.environment_id(PYTHON, plain),
        environment.environment_id("/other", plain),
        environment.environment_id(PYTHON, replace(plain, only=True)),
        environment.environment_id(PYTHON, replace(plain, python_version="3.12")),
    }
    assert len(names) == 4
    assert all(len(each) == 20 and set(each) <= set("0123456789abcdef") for each in names)


lines = st.lists(
    st.sampled_from(["numpy", "Numpy", "pandas==2.2", "a_b", "a-b", "-c x<1", "--pre", "-e /w/p # content aa", "/w/x"]),
    max_size=6,
).map(tuple)


@given(lines)
def test_the_normal_form_is_its_own_and_loses_no_requirement(found: tuple[str, ...]) -> None:
    normal = environment.normalise_requirements(found)
    assert environment.normalise_requirements(normal) == normal
    assert len(set(normal)) == len(normal)
    assert bool(normal) == bool(found)
    assert environment.normalise_requirements((*found, *found)) == normal


@given(st.one_of(st.none(), environments), st.one_of(st.none(), environments))
def test_two_environments_are_equal_or_their_words_differ(
    one: PythonEnvironment | None, other: PythonEnvironment | None
) -> None:
    wanted, found = environment.environment_diff(one, other)
    assert (wanted == found) == (one == other)


@pytest.mark.parametrize(
    ("lines", "only", "said"),
    [
        (("scikit-learn==1.5",), False, "scikit-learn==1.5"),
        (("scikit-learn==1.5",), True, "only scikit-learn==1.5"),
        (("d", "c", "b", "a"), False, "a, b, c and 1 more"),
        (("--index-url https://x.example", "a"), False, "a"),
        (("--no-index",), False, "options alone"),
        (("-e /w/pkg # content ab", "a==1 --hash=sha256:0"), False, "pkg and a==1"),
        (("pkg @ https://x.example/pkg.whl#sha256=0", "b; python_version < '4'"), False, "b and pkg"),
        (("/w/alpha-1.0-py3-none-any.whl # content ab",), False, "alpha-1.0-py3-none-any.whl"),
    ],
)
def test_an_environment_is_named_by_its_requirements_without_paths_and_addresses(
    lines: tuple[str, ...], only: bool, said: str
) -> None:
    assert environment.format_environment(made(*lines, only=only)) == said


def test_a_cold_start_says_which_environment_was_there_and_which_is_wanted() -> None:
    pool = a_cluster(key=a_key(environment=made("scikit-learn==1.5")))
    world = placement.PlacementSnapshot(clusters=(pool,), reachable=frozenset({pool.id}))
    for wanted, words in (("pandas",), "pandas"), ((), "without requirements"):
        spec = a_spec(requirements=wanted, python_version="3.11")
        decision = placement.place(spec, reuse.reuse_key(spec, "me"), world, Limits(), NOW)
        assert isinstance(decision, placement.Launch)
        said = f"Cold: pool {pool.name()} has environment scikit-learn==1.5, this job needs {words}."
        assert decision.why.sentence == said


def test_a_pool_with_the_same_environment_is_warm() -> None:
    spec = a_spec(requirements=("Pandas",), python_version="3.11")
    pool = a_cluster(key=a_key(environment=made("pandas")))
    world = placement.PlacementSnapshot(clusters=(pool,), reachable=frozenset({pool.id}))
    assert isinstance(placement.place(spec, reuse.reuse_key(spec, "me"), world, Limits(), NOW), placement.Reuse)


@pytest.mark.parametrize(
    ("timings", "ready", "said"),
    [
        ({}, False, "Its environment (numpy) has to be built first."),
        ({}, True, "Its environment (numpy) was ready."),
        ({"building": 10.0}, False, "Its environment (numpy) has to be built first."),
        ({"building": 10.0, "built": 22.5}, True, "Its environment (numpy) was built in 12.5 s."),
        ({"building": 10.0, "built": 9.0}, True, "Its environment (numpy) was built in 0 ms."),
    ],
)
def test_a_note_says_where_the_environment_came_from(timings: dict[str, float], ready: bool, said: str) -> None:
    assert environment.note(a_job(spec=a_spec(requirements=("numpy",)), timings=timings), ready=ready) == said
    assert environment.note(a_job(timings=timings), ready=ready) == ""


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("numpy", False),
        ("--index-url https://x.example", False),
        ("-c numpy<2", False),
        ("-e /w/p", False),
        ("--no-binary :all:", False),
        ("--pre", True),
        ("--require-hashes", True),
        ("--trusted-host x", True),
        ("--pre=1", True),
        ("numpy --hash=sha256:1 --hash=sha256:2", False),
        ("/w/p # content 0123", False),
        ("numpy --config-settings=a=b", True),
        ("numpy --hash=sha256:1 --global-option=--x", True),
    ],
)
def test_options_that_uv_would_leave_out_or_not_read_are_left_to_pip(line: str, needs: bool) -> None:
    assert environment.needs_pip(["x", line]) is needs


def test_folders_are_quoted_for_pip_and_nothing_else_is() -> None:
    lines = ["-e /my/own project # content 01", "--find-links /my wheels", "-e /p", "numpy # content 2", "--no-index"]
    quoted = ["-e '/my/own project' # content 01", "--find-links '/my wheels'", *lines[2:]]
    assert environment.format_for_pip(lines) == quoted
    spec = a_spec(image="x", requirements=tuple(lines))
    host = named_hosts(spec.instance_groups)[0]
    assert run_request.run_spec(a_job(spec=spec), host, 0, 0)["requirements"] == quoted


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"requirements": ("a\n--index-url https://evil.example",)}, "a\n--index-url https://evil.example"),
        ({"requirements": ("a\0",)}, "a\0"),
        ({"requirements": ("a" * 300_000,)}, "300000"),
        ({"requirements_only": True}, ""),
    ],
    ids=["lines", "nul", "size", "nothing"],
)
def test_requirements_that_cannot_be_honoured_are_refused(fields: dict[str, object], value: str) -> None:
    with pytest.raises(ValidationError) as told:
        environment.check(a_spec(**fields), builds=True)
    assert (told.value.field, told.value.value) == ("requirements", value)


def test_an_engine_whose_hosts_cannot_use_an_environment_is_named() -> None:
    with pytest.raises(ValidationError, match="hosts of the engine ray cannot run"):
        environment.check(a_spec(engine="ray", requirements=("a",)), builds=False)
    environment.check(a_spec(engine="ray"), builds=False)
