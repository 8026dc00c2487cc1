"""Generators that a preloaded module made: without a seed they differ from job to job, with one they are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


PYTHON = """
import copy, random

class Own(random.Random):
    def seed(self, a=None):
        super().seed(a)

class Holder:
    rng = random.Random()
    inner = [Own()]

def _closure():
    hidden = random.Random()
    return hidden.random

again = random.Random(5); again.seed()
before = random.Random(); state = before.getstate(); before.seed(1); before.setstate(state)
late = random.Random(); late.seed(5)
restored = random.Random(); restored.setstate(random.Random(8).getstate())
drawn = random.Random(); drawn.random()
used = random.Random(2); used.random()
_kept = random.getstate(); random.seed(3); random.random(); random.setstate(_kept)

UNSEEDED = [random.random, random.Random().random, Holder.rng.random, Holder.inner[0].random, _closure(),
            again.random, before.random, copy.copy(before).random, drawn.random, random.SystemRandom().random]
SEEDED = [random.Random(1).random, Own("text").random, late.random, restored.random, copy.copy(late).random,
          used.random]
"""
NUMPY = """
import copy, numpy as np
from numpy.random import PCG64, SFC64, Generator, MT19937, Philox, RandomState, SeedSequence, default_rng

class Holder:
    rng = default_rng()

def words(sequence):
    return lambda: int(sequence.generate_state(1)[0])

again = RandomState(7); again.seed()
late = RandomState(); late.seed(7)
drawn = default_rng(); drawn.random(1000)
long = RandomState(); long.random_sample(5000)
scatter = Generator(SFC64()); scatter.random(77)
family = SeedSequence()
normal = RandomState(); normal.standard_normal()
_kept = np.random.get_state(); np.random.seed(3); np.random.random(); np.random.set_state(_kept)
longseed = default_rng(0x87351080e25cb0fad77a44a3be03b491)
restored = RandomState(); restored.set_state(RandomState(9).get_state())

UNSEEDED = [np.random.random, RandomState().random_sample, Holder.rng.random, Generator(PCG64()).random, scatter.random,
            Generator(Philox()).random, Generator(MT19937()).random, again.random_sample, drawn.random,
            long.random_sample, words(family), words(family.spawn(2)[1]), normal.standard_normal,
            RandomState(PCG64()).random_sample,
            lambda rng=default_rng(): rng.bit_generator._seed_seq.spawn(1)[0].generate_state(1).tolist()[0]]
SEEDED = [RandomState(1).random_sample, late.random_sample, default_rng(2).random, Generator(Philox(3)).random,
          Generator(SFC64(3)).random, Generator(MT19937(3)).random, words(SeedSequence(4)),
          words(SeedSequence(4).spawn(2)[1]), longseed.random, restored.random_sample]
"""
JOB = """
import json, {0}
print(json.dumps([[float(draw()) for draw in kind] for kind in ({0}.UNSEEDED, {0}.SEEDED)]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("text", [PYTHON, NUMPY], ids=["python", "numpy"])
def test_generators_without_a_seed_differ_from_job_to_job_and_those_with_one_are_as_in_a_cold_program(
    preload: Callable[..., Any], site: Path, text: str, method: str
) -> None:
    (site / "generators.py").write_text(text)
    agent, news = preload("generators", start_method=method)
    assert news["loaded"] == ["generators"], news
    job = JOB.format("generators")
    cold = json.loads(subprocess.check_output([sys.executable, "-c", job], env={"PYTHONPATH": str(site)}))
    warm = [agent.json(job) for _ in range(3)]
    draws: list[tuple[Any, ...]] = list(zip(cold[0], *(one[0] for one in warm), strict=True))
    assert [number for number, column in enumerate(draws) if len(set(column)) != 4] == []
    assert [one[1] for one in warm] == [cold[1]] * 3


@pytest.mark.parametrize(
    ("library", "seeding"),
    [("random", "import random; random.seed(4)"), ("numpy.random", "import numpy; numpy.random.seed(4)")],
)
def test_a_module_that_seeds_a_global_generator_is_not_preloaded_for_jobs_that_do_not_import_it(
    preload: Callable[..., Any], site: Path, library: str, seeding: str
) -> None:
    (site / "seeding.py").write_text(seeding)
    (site / "other.py").write_text("import numpy.random, random")
    agent, news = preload("other", "seeding")
    assert news["loaded"] == ["other"]
    assert news["failed"] == {"seeding": f"its import gives {library} a seed, also for jobs that do not import it"}
    draw = f"import json, random, numpy.random\nprint(json.dumps({library}.random()))"
    assert len({agent.json(draw) for _ in range(2)}) == 2
    assert len({agent.json(f"import seeding\n{draw}") for _ in range(2)}) == 1
