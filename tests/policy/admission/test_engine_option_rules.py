"""Options of engines: an engine takes those that it has, and names them where a job has another one."""

from __future__ import annotations

import pytest
from draws import a_spec

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy.admission import engine_option_rules


def test_an_engine_takes_the_options_that_it_has() -> None:
    engine_option_rules.check(a_spec(), options=())
    engine_option_rules.check(a_spec(engine_options={"partition": "gpu"}), options=("account", "partition"))


@pytest.mark.parametrize(
    ("options", "rule", "cure"),
    [
        ((), "It has no options.", "Remove --engine-option."),
        (("account", "partition"), "Its options are account, partition.", "Did you mean partition?"),
        (("qos",), "Its options are qos.", "Remove the option."),
    ],
)
def test_an_engine_lists_its_options_in_the_refusal(options: tuple[str, ...], rule: str, cure: str) -> None:
    with pytest.raises(ValidationError) as refused:
        engine_option_rules.check(a_spec(engine="ssh:box", engine_options={"partitoin": "gpu"}), options=options)
    assert refused.value.message == "--engine-option partitoin: the engine ssh has no option 'partitoin'."
    assert (refused.value.rule, refused.value.cure) == (rule, cure)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("e", "Use --env NAME=VALUE."),
        ("env", "Use --env NAME=VALUE."),
        ("u", "Use --user image|default."),
        ("user", "Use --user image|default."),
        ("v", "Use --mount SOURCE:TARGET,"),
        ("p", "Hosts publish no ports."),
        ("network-isolation", "Use --network-isolation."),
        ("nothing", "Remove --engine-option."),
    ],
)
def test_an_option_of_docker_names_the_one_of_jobs(name: str, cure: str) -> None:
    with pytest.raises(ValidationError) as refused:
        engine_option_rules.check(a_spec(engine="docker", engine_options={name: "x"}), options=())
    assert refused.value.cure.startswith(cure)
    with pytest.raises(ValidationError, match="It has no options") as refused:
        engine_option_rules.check(a_spec(engine="local", engine_options={name: "x"}), options=())
    assert refused.value.cure == "Remove --engine-option."
