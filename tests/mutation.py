"""Break the policy on purpose, in a seeded sample of places, and see whether the tests of each module notice.

Mutmut makes the mutants. What it does to texts is left out, for their wording is no decision. Each mutant runs in a
copy of the checkout: against the tests that import its module, then, where these pass, against all tests of the policy,
and last against those of the controller's simulation.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import difflib
import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import libcst
from mutmut.mutation.file_mutation import create_mutations, deep_replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mutmut.mutation.file_mutation import Mutation

ROOT = Path(__file__).parents[1]
MUTATED = Path("jupyter_smx", "policy")
TESTS = Path("tests", "policy")
BESIDE = tuple(f"tests/controller/{folder}" for folder in ("agents", "images", "scheduling", "state"))
"""Whose tests try the policy in a simulation of the controller, and start no process."""

LEAST = 90.0
"""Percent of the mutants that must be noticed."""

LIMIT = 300.0
"""Seconds after which a mutant counts as noticed: it made something endless."""

NOTICED = (1, 2, 3)
"""Exit codes of pytest where a test failed or could not be imported; the others say that no test ran."""

PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")


class Mutant(NamedTuple):
    """A file of the policy with one change for the worse."""

    path: Path
    """From the root of the checkout."""
    module: libcst.Module
    mutation: Mutation

    def code(self) -> str:
        """Give the text of the file with the change."""
        changed = deep_replace(self.module, self.mutation.original_node, self.mutation.mutated_node)
        assert isinstance(changed, libcst.Module)
        return changed.code

    def changes(self) -> str:
        """Describe the change by its file, its line, and the lines that differ."""
        return f"{self.path}:{describe(self.module.code, self.code())}"


def mutants_of(path: Path, code: str) -> list[Mutant]:
    """List what can be changed inside the functions of a file, texts left out."""
    module, mutations, _, _ = create_mutations(str(path), code)
    return [
        Mutant(path, module, mutation)
        for mutation in mutations
        if mutation.contained_by_top_level_function and not changes_text(mutation)
    ]


def changes_text(mutation: Mutation) -> bool:
    """Say whether a text is changed, or is an argument that is left out or replaced."""
    before, after = mutation.original_node, mutation.mutated_node
    if isinstance(before, libcst.Call) and isinstance(after, libcst.Call):
        lost = [argument.value for argument in before.args if argument not in after.args]
        return bool(lost) and all(isinstance(value, libcst.BaseString) for value in lost)
    return isinstance(before, libcst.BaseString)


def describe(before: str, after: str) -> str:
    """Give the number of the first line that differs, and the lines themselves."""
    rows = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    first = rows[0].split()[1].lstrip("-").split(",")[0] if rows else "?"
    return f"{first}: " + "  ".join(f"{row[0]} {row[1:].strip()}" for row in rows if not row.startswith("@@"))


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Choose mutants; a seed always chooses the same ones of the same code."""
    return random.Random(seed).sample(mutants, min(count, len(mutants)))  # noqa: S311 - nothing secret


def imported_modules(code: str) -> set[str]:
    """List the modules that a test file imports, and the names that it imports from packages."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@functools.cache
def imports_of_tests(root: Path) -> dict[Path, set[str]]:
    """Give what each test file of the policy imports."""
    files = (file.relative_to(root) for file in sorted((root / TESTS).rglob("test_*.py")))
    return {file: imported_modules((root / file).read_text(encoding="utf-8")) for file in files}


def tests_of(path: Path, root: Path) -> list[list[str]]:
    """Give the tests of a module in three steps: the files that import it, all of the policy's, and those beside."""
    module = ".".join(path.with_suffix("").parts)
    near = [file.as_posix() for file, modules in imports_of_tests(root).items() if module in modules]
    folder = TESTS / path.parent.relative_to(MUTATED)
    return [near or [folder.as_posix()], [TESTS.as_posix()], [*BESIDE]]


class Checkout:
    """A copy of the checkout, one mutant at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        names = subprocess.run(
            ["git", "ls-files", "jupyter_smx", "tests", "pyproject.toml"],  # noqa: S607
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        for name in filter(lambda name: (ROOT / name).exists(), names):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        # What the build writes and git does not know.
        shutil.copy2(ROOT / "jupyter_smx" / "_version.py", root / "jupyter_smx" / "_version.py")
        compileall.compile_dir(root / "jupyter_smx", quiet=1)

    def passes(self, tests: Sequence[str]) -> bool:
        """Run tests until one fails; say whether none did."""
        words = [sys.executable, "-m", "pytest", "-x", "-q", "--no-processes", "-p", "no:cacheprovider"]
        words += [word for plugin in PLUGINS for word in ("-p", plugin)]
        # Bytecode written now could pass for that of the next mutant: it is compared by size and whole seconds.
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [*words, *tests], cwd=self.root, env=environment, check=False, capture_output=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (0, *NOTICED):
            raise RuntimeError(done.stdout.decode(errors="replace"))
        return done.returncode == 0

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Let the mutant be in its file while the block lasts."""
        file = self.root / mutant.path
        before = file.read_text(encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        file.write_text(mutant.code(), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(before, encoding="utf-8")

    def survives(self, mutant: Mutant) -> bool:
        """Say whether no test notices the mutant."""
        with self.mutated(mutant):
            return all(self.passes(tests) for tests in tests_of(mutant.path, ROOT))


def find_survivors(mutants: Sequence[Mutant], copies: Sequence[Checkout]) -> list[Mutant]:
    """Try all mutants, as many at once as there are copies."""
    free: SimpleQueue[Checkout] = SimpleQueue()
    tried: list[Mutant] = []
    for copy in copies:
        free.put(copy)

    def survives(mutant: Mutant) -> bool:
        copy = free.get()
        try:
            survived = copy.survives(mutant)
        finally:
            free.put(copy)
        tried.append(mutant)
        if len(tried) % 20 == 0:
            say(f"{len(tried)} tried")
        if survived:
            say(f"survived: {mutant.changes()}")
        return survived

    with ThreadPoolExecutor(len(copies)) as threads:
        return [mutant for mutant, survived in zip(mutants, threads.map(survives, mutants), strict=True) if survived]


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Try a sample, print what survived and the rate; fail below the least one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("files", nargs="*", type=Path, help=f"files below {MUTATED}; all where none is named")
    asked = parser.parse_args(words)
    files = asked.files or sorted(path.relative_to(ROOT) for path in (ROOT / MUTATED).rglob("*.py"))
    mutants = [mutant for path in files for mutant in mutants_of(path, (ROOT / path).read_text(encoding="utf-8"))]
    chosen = sample(mutants, asked.count, asked.seed)
    say(f"{len(chosen)} of {len(mutants)} mutants of {len(files)} files, seed {asked.seed}")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="smx-mutation-") as folder:
        copies = [Checkout(Path(folder, str(number))) for number in range(asked.workers)]
        if not copies[0].passes([TESTS.as_posix(), *BESIDE]):
            say("The tests fail without any mutant")
            return 2
        survivors = find_survivors(chosen, copies)
    killed = 100.0 * (1 - len(survivors) / len(chosen))
    took = time.monotonic() - begun
    say(f"{killed:.1f} % of {len(chosen)} mutants were noticed; {LEAST:.0f} % is the least ({took:.0f} s)")
    return 0 if killed >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
