"""The pages name everything that a person can use, and nothing that is not there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from blocks import PAGES, ROOT

import jupyter_smx as smx
from jupyter_smx.cli.main import SUBCOMMANDS, parser_of
from jupyter_smx.controller.app import ControllerApp
from jupyter_smx.engines import registry
from jupyter_smx.engines.remote.machine import MachineOptions
from jupyter_smx.engines.remote.remote_engine import RemoteEngine
from jupyter_smx.engines.slurm import job_options
from jupyter_smx.engines.slurm.traits import SlurmTraits
from jupyter_smx.engines.ssh.engine import SshEngine
from jupyter_smx.kernel.magics.magics import SmxMagics
from jupyter_smx.kernel.subcommands.table import rows_on
from jupyter_smx.model.options.docker_options import INSTEAD
from jupyter_smx.model.options.table import TABLE
from jupyter_smx.model.records.cluster import ReuseKey
from jupyter_smx.policy.hosts.library_versions import REMOVED_CALLS

DOCS = ROOT / "docs"
SOURCE = ROOT / "jupyter_smx"
NOT_FOR_READERS = {"update", "add_listener", "latest_record", "notify_listeners"}
"""Methods of a handle by which the package talks to itself."""

FOREIGN = {
    "--authfile": "podman",
    "--debug": "jupyter",
    "--execute": "nbconvert",
    "--help-all": "traitlets",
    "--log-output": "papermill",
    "--mail-type": "sbatch",
    "--mem": "sbatch",
    "--partition": "sbatch",
    "--no-progress-bar": "papermill",
    "--output": "nbconvert",
    "--overlap": "srun",
    "--paths": "jupyter",
    "--to": "nbconvert",
    "--upgrade": "pip",
    "--confcutdir": "pytest",
    "--timeout": "pytest",
}
"""Options of other programs that the pages use, and whose they are."""

WRONG = {"--keepalive": "shows what a wrong option is answered with", "--epochs": "an argument of the user's script"}
"""What looks like an option in an example and is none."""


def text(*folders: str) -> str:
    """Read the pages that persons wrote below some folders of ``docs``."""
    return "\n".join(
        path.read_text(encoding="utf-8") for name in folders for path in sorted((DOCS / name).rglob("*.md"))
    )


def everything() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


COMMANDS = [row.name for row in rows_on("notebook")]


def mentions(words: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", words) is not None


def long_options() -> list[str]:
    return [option.spellings[-1] for option in TABLE]


def command_line_options() -> set[str]:
    actions = [action for row in SUBCOMMANDS.values() for action in parser_of(row)._actions]
    found = {word for action in actions for word in action.option_strings}
    return {word for word in found if word.startswith("--")} | {"--version"}


def handle_names() -> list[str]:
    return [name for name in vars(smx.Job) if not name.startswith("_") and name not in NOT_FOR_READERS]


def traits(kind: Any) -> list[str]:
    ours = [base for base in kind.__mro__ if base.__module__.startswith("jupyter_smx.")]
    return [name for base in ours for name in base.class_own_traits(config=True)]


@pytest.mark.parametrize("option", sorted({*long_options(), *command_line_options()} - {"--help"}))
def test_every_option_is_shown_in_a_page_for_users(option: str) -> None:
    shown = mentions(text("users"), option)
    assert shown, f"write a sentence about {option} into a page of docs/users/howto"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_of_the_magic_is_shown_in_a_page_for_users(name: str) -> None:
    shown = mentions(text("users"), f"%smx {name}")
    assert shown, f"write a sentence about %smx {name} into a page of docs/users/howto"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_of_the_command_is_shown_in_a_page_for_users(name: str) -> None:
    shown = mentions(text("users"), f"jupyter smx {name}")
    assert shown, f"show jupyter smx {name} in docs/users/howto/command-line.md"


@pytest.mark.parametrize("name", [name for name in dir(smx) if not name.startswith("_")])
def test_every_public_name_is_shown_in_a_page_for_users_and_in_the_reference(name: str) -> None:
    shown = mentions(text("users/howto"), f"smx.{name}")
    assert shown, f"show smx.{name} in docs/users/howto/functions.md"
    referred = mentions(text("users/reference"), f"jupyter_smx.{name}")
    assert referred, f"add {name} to docs/users/reference/functions.md"


@pytest.mark.parametrize("name", handle_names())
def test_everything_that_a_handle_can_do_is_shown_in_a_page_for_users(name: str) -> None:
    shown = re.search(rf"[\w)]\.{name}\b", text("users/howto")) is not None
    assert shown, f"show job.{name} in docs/users/howto/follow.md"


REUSED_BY = {
    "engine": "engine",
    "user": "user",
    "role": "role",
    "instance_groups": "instance type and count",
    "python": "Python interpreter",
    "environment": "`--requirements`",
    "image": "image",
    "image_settings": "with `--user` and `--entrypoint`",
    "network_isolation": "`--network-isolation`",
    "mounts": "`--mount`",
    "shm_size": "`--shm-size`",
    "engine_options": "`--engine-option`",
}
"""How the page on warm pools calls each field in which a job and a pool must be equal."""


def test_the_page_on_warm_pools_names_each_field_that_makes_a_start_cold() -> None:
    page = " ".join((DOCS / "users/howto/warm-pools.md").read_text(encoding="utf-8").split())
    sentence = page.partition("if these match: ")[2].partition(".")[0]
    assert set(REUSED_BY) == set(ReuseKey.__struct_fields__)
    assert [words for words in REUSED_BY.values() if words not in sentence] == []


@pytest.mark.parametrize("kind", [ControllerApp, SmxMagics], ids=lambda kind: kind.__name__)
def test_every_trait_is_in_a_page_that_a_person_wrote(kind: Any) -> None:
    pages = text("operators", "users/howto")
    assert [name for name in traits(kind) if not mentions(pages, name)] == [], "see docs/operators/limits.md"


@pytest.mark.parametrize("name", sorted(registry.installed_engines()))
def test_every_engine_has_its_words_for_users_and_for_operators(name: str) -> None:
    kind = registry.engine_class(name)
    assert mentions(text("operators"), kind.__name__), f"configure c.{kind.__name__} in docs/operators"
    assert mentions(text("users/howto"), name), f"say in docs/users/howto/hosts.md what --engine {name} is"


def test_the_page_on_ssh_names_every_trait_and_every_option_of_a_machine() -> None:
    page = (DOCS / "users/howto/ssh.md").read_text(encoding="utf-8")
    own = [name for kind in (RemoteEngine, SshEngine) for name in kind.class_own_traits(config=True)]
    known = {*own, *MachineOptions.__struct_fields__} - {"data_dir"}
    assert sorted(name for name in known if not mentions(page, name)) == []


def test_the_page_on_slurm_names_every_trait_and_every_option_of_a_job() -> None:
    page = (DOCS / "users/howto/slurm.md").read_text(encoding="utf-8")
    own = [*SlurmTraits.class_own_traits(config=True)]
    assert [name for name in own if not mentions(page, name)] == []
    assert [name for name in job_options.NAMES if f"`{name}" not in page] == []


def test_the_cures_on_the_page_on_ssh_are_of_sentences_that_there_are() -> None:
    page = (DOCS / "users/howto/ssh.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|", page.partition("## Troubleshooting")[2], flags=re.MULTILINE)
    folders = [SOURCE / name for name in ("engines/ssh", "engines/remote", "agent/remote")]
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py"))
    parts = [part.strip() for row in rows for part in row.split("…") if part.strip(" .")]
    assert len(rows) > 10
    assert [part for part in parts if part not in sources] == []


def test_every_trait_of_an_engine_says_what_it_is_for() -> None:
    engines = [registry.engine_class(name) for name in registry.installed_engines()]
    silent = [
        f"{kind.__name__}.{name}" for kind in engines for name in traits(kind) if not kind.class_traits()[name].help
    ]
    assert silent == []


def test_the_pages_name_no_trait_that_is_not_there() -> None:
    classes: dict[str, Any] = {kind.__name__: kind for kind in (ControllerApp, SmxMagics)}
    classes |= {kind.__name__: kind for kind in map(registry.engine_class, registry.installed_engines())}
    said = re.findall(r"\bc\.(\w+(?:App|Engine|Magics))\.(\w+)", everything())
    assert [
        f"{name}.{trait}" for name, trait in said if name in classes and trait not in classes[name].class_traits()
    ] == []
    assert {name for name, _ in said} <= {*classes, "MoonEngine", "ServerApp"}


def test_the_pages_name_no_command_that_is_not_there() -> None:
    said = everything()
    assert set(re.findall(r"%smx ([a-z]+)", said)) <= set(COMMANDS)
    assert set(re.findall(r"jupyter smx ([a-z]+)", said)) <= set(SUBCOMMANDS)
    assert set(re.findall(r"(?<![\w.-])smx\.(?!local/)([A-Za-z]\w*)", said)) - {"sqlite"} <= set(dir(smx))
    of_handles = {name for name in dir(smx.Job) if not name.startswith("_")} | {"json"}
    assert set(re.findall(r"(?<![\w.-])job\.([a-z]\w*)", said)) <= of_handles


def test_the_pages_for_users_name_no_option_that_is_not_there() -> None:
    said = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text("users", "operators") + (ROOT / "README.md").read_text()))
    known = {*long_options(), *command_line_options(), *FOREIGN, *INSTEAD, *WRONG}
    assert said <= known


def test_the_pages_name_no_file_of_the_repository_that_is_not_there() -> None:
    pages = [page for page in PAGES if page.name != "moved.md"]  # its purpose is to name what is gone
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    said = re.findall(r"`((?:jupyter_smx|tests|docs|examples|bench|src|schema|ui-tests)/[\w./-]*)`", text)
    assert said
    assert [path for path in said if not (ROOT / path).exists()] == []


def test_each_test_that_a_page_for_operators_names_exists() -> None:
    named = set(re.findall(r"`((?:tests|ui-tests|src)/[\w./-]+)`", text("operators")))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_page_of_differences_has_each_version_that_a_failure_names() -> None:
    page = (DOCS / "users/reference/differences.md").read_text(encoding="utf-8")
    assert [call.requirement for call in REMOVED_CALLS if f"`{call.requirement}`" not in page] == []


def rows_of_surroundings() -> list[str]:
    lines = (DOCS / "operators" / "surroundings.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| surroundings |")]
    return [row for row in rows if set(row) - set("|- ")]


@pytest.mark.parametrize("row", rows_of_surroundings(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_row_of_the_surroundings_names_a_test_or_says_how_it_was_tried(row: str) -> None:
    paths = re.findall(r"`((?:tests|ui-tests|src)/[^`]*)`", row)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert paths or "by hand" in row or "not tried" in row
