"""What SDK 3's drivers cannot carry to a script is refused by name, and nothing else is."""

from __future__ import annotations

import re
import string
import subprocess
from typing import Any

import pytest
from draws import a_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.agent.contract import configfiles, scriptmode, sdk3_driver
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.policy.admission import checks, sdk3_rules
from jupyter_smx.policy.limits import Limits

PLACE = HostInfo(
    host="algo-1",
    hosts=["algo-1"],
    groups=[{"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1"]}],
    group="homogeneousCluster",
    instance_type="local",
    cpus=2,
    gpus=0,
)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "process"}, "contract"),
        ({"channels": (Channel(name="my-val", source="/data"),)}, "channels"),
        ({"channels": (Channel(name="a.b", source="/data"),)}, "channels"),
        ({"channels": (Channel(name="code", source="/data"),)}, "channels"),
        ({"channels": (Channel(name="sm_drivers", source="/data"),)}, "channels"),
        ({"hyperparameters": {"a.b": "1"}}, "hyperparameters"),
        ({"hyperparameters": {"größe": "1"}}, "hyperparameters"),
        ({"hyperparameters": {"a": "it's"}}, "hyperparameters"),
    ],
)
def test_what_would_fail_there_is_refused_here(change: dict[str, Any], field: str) -> None:
    checks.check(a_spec(**change), Limits(), ("local",))
    with pytest.raises(ValidationError) as refusal:
        checks.check(a_spec(contract="v3", **change), Limits(), ("local",))
    assert refusal.value.field == field
    assert refusal.value.rule
    assert refusal.value.cure


def test_the_channels_that_are_kept_for_sdk_3_are_those_that_it_adds() -> None:
    assert set(configfiles.DRIVER_CHANNELS) == sdk3_rules.RESERVED


NAMES = st.text(string.ascii_letters + string.digits + "-_.é", min_size=1, max_size=5)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["it's", "$(id)", "`id`", '"a"', '"\\"$HOME\\""', "a\nb", "\\", "[1, 2]", "null"]
)


@pytest.mark.processes
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_bash_reads_what_passes_and_chokes_on_what_is_refused(values: dict[str, str]) -> None:
    spec = a_spec(contract="v3", hyperparameters=values)
    try:
        sdk3_rules.check(spec)
    except ValidationError:
        passes = False
    else:
        passes = True
    wish = scriptmode.complete({"source": "pass", "contract": "v3", "hyperparameters": values})
    text = sdk3_driver.texts(wish, PLACE)["input/sm_training.env"]
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -e\n{text}\nenv -0"],
        check=False,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    read = dict(pair.split("=", 1) for pair in done.stdout.decode(errors="replace").split("\0") if "=" in pair)
    same = all(read.get(name) == value for name, value in sdk3_driver.variables(wish, PLACE).items())
    assert (done.returncode == 0 and same) is passes
    assert passes or any(re.search(r"[^A-Za-z0-9_-]", name) or "'" in text for name, text in values.items())
