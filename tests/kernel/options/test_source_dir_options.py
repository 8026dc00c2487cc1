"""``--source-dir`` and ``--entry-point`` on a magic's line and as keywords, with a controller that runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx import controller_launch
from jupyter_smx.kernel.display.card import card_of
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

pytestmark = pytest.mark.usefixtures("front_end", "project")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "src/train.py": "import numpy, helper\nfrom pkg.deep import x\nimport beside\n",
        "src/helper.py": "X = 1\n",
        "src/pkg/deep.py": "x = 1\n",
        "src/sub/fit.py": "import numpy, beside\n",
        "src/sub/beside.py": "",
        "alone.py": "print(1)\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def spec(controller: ScriptedController) -> Any:
    (job,) = controller.jobs.values()
    return job.spec


def refused(shell: InteractiveShell, controller: ScriptedController, text: str) -> str:
    done = shell.run_cell(text)
    assert not done.success
    assert not controller.jobs
    return str(done.error_in_exec)


def test_a_cell_of_comments_leaves_the_word_to_the_entry_point(
    shell: InteractiveShell, controller: ScriptedController, project: Path
) -> None:
    assert shell.run_cell("%%train --source-dir src --entry-point train.py\n\n# as it is\n").success
    found = spec(controller)
    assert (found.source, found.entry_point) == ((project / "src" / "train.py").read_text(), "train.py")
    assert found.filename == str(project / "src" / "train.py")
    assert (found.source_dir.folder, found.source_dir.files) == (str(project / "src"), 5)
    assert found.imports == ("numpy", "beside")  # what comes with the job is no hint for its host


@pytest.mark.parametrize(
    "cell",
    [
        "%train --source-dir src --entry-point train.py --source-ignore none",
        "import jupyter_smx as smx\nsmx.train(source_dir='src', entry_point='train.py', source_ignore='none')",
    ],
)
def test_source_ignore_none_sends_what_gitignore_names(
    shell: InteractiveShell, controller: ScriptedController, project: Path, cell: str
) -> None:
    (project / "src" / ".gitignore").write_text("helper.py\n")
    assert shell.run_cell(cell).success
    found = spec(controller)
    assert (found.source_ignore, found.source_dir.files, found.source_dir.ignored) == ("none", 6, ())


def test_files_that_gitignore_names_stay_behind(
    shell: InteractiveShell, controller: ScriptedController, project: Path
) -> None:
    (project / "src" / ".gitignore").write_text("helper.py\n")
    assert shell.run_cell("%train --source-dir src --entry-point train.py").success
    found = spec(controller)
    assert (found.source_ignore, found.source_dir.files, found.source_dir.ignored) == ("gitignore", 5, ("helper.py",))


def test_a_script_in_a_folder_of_the_folder_has_its_neighbours(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    assert shell.run_cell("%train --source-dir src --entry-point sub/fit.py").success
    assert spec(controller).imports == ("numpy",)


def test_a_line_is_enough_for_an_entry_point_and_not_for_code(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    assert "The cell is empty. " in refused(shell, controller, "%process --source-dir src")
    assert "Add code, or run a file with --entry-point FILE." in refused(shell, controller, "%train")
    assert shell.run_cell("%process --entry-point alone.py").success
    assert (spec(controller).kind, spec(controller).entry_point, spec(controller).source_dir) == (
        "process",
        "alone.py",
        None,
    )


def test_an_empty_cell_with_an_entry_point_runs_it(
    shell: InteractiveShell, controller: ScriptedController, project: Path
) -> None:
    assert shell.run_cell("%%train --entry-point alone.py").success
    found = spec(controller)
    assert (found.source, found.entry_point) == ((project / "alone.py").read_text(), "alone.py")


def test_an_empty_cell_without_one_is_refused_with_our_sentence(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    assert refused(shell, controller, "%%train").startswith("The cell is empty.")


def test_code_and_an_entry_point_are_one_too_many(shell: InteractiveShell, controller: ScriptedController) -> None:
    said = refused(shell, controller, "%%train --entry-point alone.py\nprint(2)")
    assert said.startswith("--entry-point: alone.py cannot be combined with code.")


@pytest.mark.parametrize(
    ("line", "required"),
    [
        ("%train --source-dir src --entry-point train.py", ("beta==1.0",)),
        ("%process --source-dir src --entry-point train.py", ("beta==1.0",)),
        ("%%train --source-dir src\nimport helper", ("beta==1.0",)),
        ("%train --source-dir src --entry-point train.py --requirements none", ()),
        ("%train --source-dir src --entry-point train.py --requirements other.txt", ("alpha",)),
        ("%train --source-dir src --entry-point run.sh", ()),
        ("%train --entry-point src/train.py", ()),
        ("%%train\npass", ()),
        ("%train --contract v3 --source-dir src --entry-point train.py", ()),
        ("%train --contract v3 --source-dir src --entry-point run.sh", ()),
        (
            "%train --contract v3 --source-dir src --entry-point train.py --requirements requirements.txt",
            ("beta==1.0",),
        ),
        ("%train --contract v3 --source-dir src --entry-point run.sh --requirements requirements.txt", ("beta==1.0",)),
        (
            "%train --contract v3 --source-dir src --entry-point run.sh --requirements src/requirements.txt",
            ("beta==1.0",),
        ),
        ("%train --contract v3 --source-dir src --entry-point run.sh --requirements other.txt", ("alpha",)),
    ],
)
def test_requirements_beside_a_python_script_are_installed_as_on_sagemaker(
    shell: InteractiveShell, controller: ScriptedController, project: Path, line: str, required: tuple[str, ...]
) -> None:
    (project / "src" / "requirements.txt").write_text("# of the script\nbeta==1.0\n")
    (project / "src" / "run.sh").write_text("echo 1\n")
    (project / "other.txt").write_text("alpha\n")
    assert shell.run_cell(line).success
    assert spec(controller).requirements == required


def test_requirements_beside_a_script_have_their_keyword(
    controller: ScriptedController, shell: InteractiveShell, project: Path
) -> None:
    del shell  # gives the session
    (project / "src" / "requirements.txt").write_text("beta==1.0\n")
    smx.train(source_dir="src", entry_point="train.py", requirements=[])
    assert spec(controller).requirements == ()
    controller.jobs.clear()
    smx.process(source_dir="src", entry_point="train.py", arguments=["--split", "0.2"])
    assert (spec(controller).requirements, spec(controller).arguments) == (("beta==1.0",), ("--split", "0.2"))


def test_words_of_a_processing_job_are_taken_as_they_are(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    shell.user_ns["share"] = 0.25
    assert shell.run_cell("%process --entry-point alone.py --arg=--split --arg {share} --arg 'a b' --arg=-n").success
    assert spec(controller).arguments == ("--split", "0.25", "a b", "-n")


def test_a_shell_script_is_no_python_and_is_not_compiled(
    shell: InteractiveShell, controller: ScriptedController, project: Path
) -> None:
    (project / "run.sh").write_text("for i in 1 2; do echo $i; done\n")
    assert shell.run_cell("%train --entry-point run.sh").success
    assert (spec(controller).source, spec(controller).imports) == ("for i in 1 2; do echo $i; done\n", ())


def test_a_plan_packs_nothing(shell: InteractiveShell, controller: ScriptedController) -> None:
    assert shell.run_cell("%%train --source-dir src --plan\nimport helper").success
    assert not controller.jobs
    assert not list((controller_launch.data_dir() / "payloads").glob("*"))


def test_the_card_says_how_much_code_went_along(
    shell: InteractiveShell, controller: ScriptedController, front_end: Screenshots
) -> None:
    shell.user_ns["cfg"] = 1
    assert shell.run_cell("%%train --source-dir src --send cfg\nimport helper").success
    (job,) = controller.jobs.values()
    assert card_of(job, 0.0).sent["source_dir"] == job.spec.source_dir.size
    assert set(front_end.cards()[0]["sent"]) == {"source_dir", "cfg"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.py", "nowhere.py does not exist."),
        ("~nobody-here/a.py", "~nobody-here/a.py does not exist."),
        ("empty.py", "empty.py is empty."),
        ("latin.py", "latin.py is not text:"),
        ("src", "src cannot be read: Is a directory."),
        ("book.ipynb", "book.ipynb is a notebook."),
    ],
)
def test_a_script_that_cannot_be_read_is_refused_with_rule_and_cure(
    controller: ScriptedController, shell: InteractiveShell, project: Path, name: str, sentence: str
) -> None:
    del shell
    (project / "empty.py").write_text("\n")
    (project / "latin.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(ValidationError) as raised:
        smx.train(project / name)
    assert raised.value.message.startswith(f"code: {project}/{sentence}")
    assert (raised.value.field, raised.value.value) == ("source", str(project / name))
    assert raised.value.rule
    assert raised.value.cure
    assert not controller.jobs


def test_the_path_of_a_script_means_what_run_makes_of_it(
    controller: ScriptedController, shell: InteractiveShell, project: Path
) -> None:
    del shell  # gives the session
    (project / "program").write_text("#!/bin/bash\nls\n")
    (project / "only.R").write_text("x <- 1\n")
    for path, source_dir, entry_point in (
        (Path("train.py"), "src", "train.py"),
        (Path("alone.py"), None, ""),
        (Path("program"), None, "program"),
    ):
        job = smx.train(path, source_dir=source_dir)
        assert controller.jobs[job.id].spec.entry_point == entry_point
    with pytest.raises(ValidationError, match=r"^code: only\.R is not Python, by its name"):
        smx.train(Path("only.R"))


def test_keywords_are_the_options(controller: ScriptedController, shell: InteractiveShell, project: Path) -> None:
    del shell  # gives the session
    smx.train(source_dir=Path("src"), entry_point=Path("train.py"))
    assert spec(controller).source_dir.folder == str(project / "src")
    with pytest.raises(ValidationError, match="cannot be combined with code"):
        smx.train("print(1)", entry_point="alone.py")
    for nothing in (None, "", " \n"):
        with pytest.raises(
            ValidationError, match=r"there is nothing to run\. .* Give code, an entry_point or an image"
        ):
            smx.process(nothing)
    with pytest.raises(ValidationError, match="entry_point is not an option"):
        smx.remote(entry_point="alone.py")  # type: ignore[call-overload]
    assert len(controller.jobs) == 1


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize(("function", "command"), [(smx.train, ("train",)), (smx.process, ())])
def test_functions_run_the_program_of_an_image(controller: ScriptedController, function: Any, command: object) -> None:
    function(None, image="algorithm:1", engine="docker")
    assert (spec(controller).image_program, spec(controller).command) == (True, command)
