"""The dictionary that SageMaker's estimators take for ``distribution``, from Python and from a line."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.options.distribution_value import read_distribution
from jupyter_smx.kernel.options.keyword_check import fits
from jupyter_smx.kernel.options.line_parser import expand_expressions, parse
from jupyter_smx.kernel.request.builders import request_from_keywords, request_from_options
from jupyter_smx.kernel.request.request import SubmissionContext
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.options.table import ROWS
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup


class SdkGroup(NamedTuple):
    """A group of SageMaker's SDK."""

    instance_group_name: str


TORCHRUN = {"torch_distributed": {"enabled": True}}
MPI = {"mpi": {"enabled": True, "processes_per_host": 2}}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (TORCHRUN, Distribution(runner="torchrun")),
        (MPI, Distribution(runner="mpi", processes=2)),
        ({"parameter_server": {"enabled": True}}, Distribution(runner="parameter_server")),
        (
            {"multi_worker_mirrored_strategy": {"enabled": True}},
            Distribution(runner="multi_worker_mirrored_strategy"),
        ),
        ({**TORCHRUN, "instance_groups": ["dnn"]}, Distribution(runner="torchrun", groups=("dnn",))),
        (
            {**TORCHRUN, "instance_groups": [InstanceGroup(name="dnn")]},
            Distribution(runner="torchrun", groups=("dnn",)),
        ),
        ({**TORCHRUN, "instance_groups": [SdkGroup("dnn")]}, Distribution(runner="torchrun", groups=("dnn",))),
        ({**TORCHRUN, "mpi": {"enabled": False}}, Distribution(runner="torchrun")),
        ({"smdistributed": {"dataparallel": {"enabled": False}}}, None),
        ({"pytorchddp": {"enabled": False}}, None),
        ({"mpi": {}}, None),
        ({}, None),
    ],
)
def test_dictionary_means_what_the_line_has(value: dict[str, Any], found: Distribution | None) -> None:
    assert fits(value, ROWS["distribution"].type)
    assert read_distribution(value).distribution == found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"smdistributed": {"dataparallel": {"enabled": True}}}, r"smdistributed is not supported\. .*torchrun"),
        ({"smdistributed": {"modelparallel": {"enabled": True}}, **MPI}, r"smdistributed is not supported\."),
        ({"pytorchddp": {"enabled": True}}, r"pytorchddp is not supported\."),
        ({"torchdistributed": {"enabled": True}}, r"'torchdistributed' is not known\. .*Did you mean torch_distri"),
        ({**TORCHRUN, **MPI}, r"torch_distributed and mpi are both enabled\. One launcher .*Remove one\."),
        ({"mpi": {"enabled": True, "process_per_host": 2}}, r"no property 'process_per_host'\. .*processes_per_host\?"),
        ({"mpi": {"enabled": True, "processes_per_host": "x"}}, r"'x' is not a number of processes\."),
        ({"mpi": True}, r"mpi is True\. The form is"),
        ("{'mpi': ", r"is not a dictionary\."),
        ("{1: 2}", r"is not a dictionary\."),
    ],
)
def test_dictionary_that_is_not_supported_is_refused_in_a_sentence(value: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said) as refusal:
        read_distribution(value)
    assert refusal.value.field == "distribution" or "processes" in refusal.value.message


def test_line_takes_it_from_a_variable_and_as_json() -> None:
    for line, namespace in (
        ("--distribution {wanted}", {"wanted": MPI}),
        (f"--distribution '{json.dumps(MPI)}'", {}),
        ("--distribution {cfg['wanted']}", {"cfg": {"wanted": str(MPI)}}),
    ):
        options = expand_expressions(parse("train", line), namespace)
        found = request_from_options("train", options, namespace, Path("/home/me"))
        assert found.distribution == Distribution(runner="mpi", processes=2)


def test_line_takes_a_variable_with_groups_of_the_sdk() -> None:
    namespace = {"wanted": {**TORCHRUN, "instance_groups": [SdkGroup("dnn")]}}
    options = expand_expressions(parse("train", "--distribution {wanted} --name {wanted}"), namespace)
    found = request_from_options("train", options, namespace, Path("/home/me"))
    assert found.distribution == Distribution(runner="torchrun", groups=("dnn",))
    assert found.name == str(namespace["wanted"]), "an option that takes no dictionary gets its text"


MPI_OPTIONS = "sagemaker_mpi_custom_mpi_options"


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({}, {MPI_OPTIONS: '"-x A=1"'}),
        ({"lr": 0.1}, {MPI_OPTIONS: '"-x A=1"', "lr": "0.1"}),
        ({MPI_OPTIONS: "-x A=2"}, {MPI_OPTIONS: '"-x A=2"'}),
    ],
)
def test_options_of_mpirun_go_as_the_hyperparameter_of_the_sdk_and_the_users_own_wins(
    own: dict[str, object], sent: dict[str, str], tmp_path: Path
) -> None:
    value = {"mpi": {"enabled": True, "custom_mpi_options": "-x A=1"}}
    keywords = {"distribution": value, "hyperparameters": own, "instance_type": "ml.m5.large"}
    request = request_from_keywords("train", keywords, (), tmp_path)
    here = SubmissionContext(python=sys.executable, python_version="3.11", folder=tmp_path)
    spec = request.build_spec("print(1)", 0, here, 0.0)
    assert spec.hyperparameters == sent
    # What SDK 2 adds for the launcher does not replace it.
    assert spec.all_hyperparameters().items() >= sent.items()


def test_options_of_mpirun_on_a_line_are_replaced_by_the_hyperparameter_of_the_line(tmp_path: Path) -> None:
    namespace = {"wanted": {"mpi": {"enabled": True, "custom_mpi_options": "-x A=1"}}}
    line = f"--distribution {{wanted}} --hp {MPI_OPTIONS}='-x A=2'"
    request = request_from_options("train", expand_expressions(parse("train", line), namespace), namespace, tmp_path)
    here = SubmissionContext(python=sys.executable, python_version="3.11", folder=tmp_path)
    assert request.build_spec("print(1)", 0, here, 0.0).hyperparameters == {MPI_OPTIONS: "-x A=2"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["mpi", "enabled", "instance_groups", "x"]), inner, max_size=3),
    )
)
def test_any_dictionary_is_read_or_refused(value: Any) -> None:
    with contextlib.suppress(SmxError):
        read_distribution(value if isinstance(value, dict) else {"mpi": value})
