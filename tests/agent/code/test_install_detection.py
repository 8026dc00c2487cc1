"""Which code installs packages, by its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.code.installs import commands
from jupyter_smx.agent.code.installs.detection import install_in, may_install

CODE = [
    (
        'import subprocess, sys\nsubprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "x==0.4.4"])',
        "pip install",
    ),
    ('import os\nos.system("pip install x")', "pip install"),
    ('import os,sys\nos.system(f"{sys.executable} -m pip install x")', "pip install"),
    ('os.system(sys.executable + " -m pip install x")', "pip install"),
    ('os.system("%s -m pip install %s" % (sys.executable, "x"))', "pip install"),
    ('os.system("{} -m pip install {}".format(sys.executable, "x"))', "pip install"),
    ('import pip\npip.main(["install", "x"])', "pip.main"),
    ('from pip._internal import main\nmain(["install","x"])', "pip.main"),
    ('from pip._internal.cli.main import main as m\nm(["install","x"])', "pip.main"),
    ('import pip._internal\npip._internal.main(["install"])', "pip.main"),
    ('from pip import main as pipmain\npipmain(["install","x"])', "pip.main"),
    ('cmd=["pip"]\ncmd.append("install")\nsubprocess.run(cmd)', "pip install"),
    ('args=["install","x"]\nsubprocess.run([sys.executable,"-m","pip",*args])', "pip"),
    ('subprocess.run("cd x && pip3 install -r r.txt", shell=True)', "pip install"),
    ('subprocess.run(["bash","-c","pip install x"])', "pip install"),
    ('subprocess.run(["uv","pip","install","x"])', "uv pip install"),
    ('subprocess.run("uv pip install --system x".split())', "uv pip install"),
    ('import shlex\nsubprocess.run(shlex.split("uv pip install x"))', "uv pip install"),
    ('subprocess.run(["sudo","-H","pip","install","x"])', "pip install"),
    ('os.execvp("pip", ["pip","install","x"])', "pip install"),
    ('subprocess.run([sys.executable,"setup.py","develop"])', "setup.py install"),
    ('from spacy.cli import download\ndownload("en")', "spacy.cli.download"),
    ('import spacy\nspacy.cli.download("en")', "spacy.cli.download"),
    ('subprocess.run([sys.executable,"-m","spacy","download","en"])', "spacy download"),
    ('import runpy\nrunpy.run_module("pip")', "run_module('pip')"),
    (
        'def install(p):\n    subprocess.check_call([sys.executable, "-m", "pip", "install", p])\ninstall("x")',
        "pip install",
    ),
    ('PIP=os.path.join(sys.prefix,"bin","pip")\nsubprocess.run([PIP, "install", "x"])', "pip install"),
    ('subprocess.run(["uv","sync"])', "uv sync"),
    ('print(subprocess.check_output("pip install x", shell=True))', "pip install"),
    ('import sh\nsh.pip.install("x")', "pip install"),
    ('import sh\nsh.pip("install","x")', "pip install"),
    ('subprocess.run(["uv", "pip", "install", "--system", "x"])', "uv pip install"),
    ('assert os.system("pip install x") == 0', "pip install"),
    ('try:\n  import x\nexcept ImportError:\n  os.system("pip install x")', "pip install"),
    ('subprocess.run([sys.executable, *"-m pip install x".split()])', "pip install"),
    ('from subprocess import run\nrun(("python3","-m","pip","install","x"))', "pip install"),
    ('import importlib\npip = importlib.import_module("pip")\npip.main(["install","x"])', "pip install"),
    ("os.system(\"python -c 'import x' || python -m pip install x\")", "pip install"),
    ('subprocess.run("""\nset -e\npip install x\n""", shell=True)', "pip install"),
    ('get_ipython().system("pip install x")', "pip install"),
    ('get_ipython().run_line_magic("pip","install x")', "pip install"),
    ('subprocess.run([python, "-m", "pip", "install", "--user", "x"])', "pip install --user"),
    ('os.system("PIP_NO_INDEX=1 pip install x")', "pip install"),
    ("import ensurepip\nensurepip.bootstrap()", "ensurepip.bootstrap"),
    ('raise SystemExit(os.system("pip install x"))', "pip install"),
    ('sys.exit(subprocess.call(["pip","install","x"]))', "pip install"),
    ('subprocess.run(f"pip{v} install x",shell=True)', "pip install"),
    ('asyncio.create_subprocess_exec(sys.executable,"-m","pip","install","x")', "pip install"),
    ('subprocess.run(["env","A=1","python","-m","pip","install","x"])', "pip install"),
    ('subprocess.run([sys.executable, "-u", "-m", "pip", "install", "x"])', "pip install"),
    ('os.popen("pip install x").read()', "pip install"),
    ('subprocess.run(["python", "-m", "uv", "pip", "install", "x"])', "uv pip install"),
    ('subprocess.run(["uv", "add", "x"])', "uv add"),
    ('def uv(*words):\n    subprocess.run(["uv", "pip", *words])\nuv("install", "x")', "uv pip install"),
]
NO_CODE = [
    "# pip install x\nprint(1)",
    '"""pip install x"""\nprint(1)',
    'print("pip install x")',
    'raise ImportError("pip install x")',
    'import warnings\nwarnings.warn("pip install x")',
    "from sklearn.pipeline import Pipeline\n",
    'subprocess.run(["pip","freeze"])',
    'subprocess.run([sys.executable,"-m","pip","list"])',
    "import pip\nprint(pip.__version__)",
    'logger.error("Please run pip install x")',
    'msg = "Please run `pip install x` first"\nraise ImportError(msg)',
    'p.add_argument("--x", help="pip install x")',
    'subprocess.run(["uv","tool","install","x"])',
    'subprocess.run(["uv","--version"])',
    'subprocess.run(["pip","download","x"])',
    'x = {"pip": 1}',
    "from pip._internal.req import parse_requirements",
    'subprocess.run(["conda","install","x"])',
    'def f():\n  "pip install x"\n',
    'subprocess.run(["git","clone","x"])',
    'raise RuntimeError("try: " + "pip install x")',
    'raise ImportError("need x. " \n "pip install x") from e',
    'log.info("version of pip: %s", v)\nsubprocess.run(["apt-get","install","x"])',
]
LINES = [
    ("#!/bin/bash\nset -e\npip install -r requirements.txt\npython train.py", "pip install"),
    ("python3 -m pip install --user x", "pip install --user"),
    ("sudo pip3 install x", "pip install"),
    ("if ! pip install x; then exit 1; fi", "pip install"),
    ("cat r | xargs -n1 pip install", "pip install"),
    ("uv pip install --system x", "uv pip install"),
    ("uv sync", "uv sync"),
    ("$PYTHON -m pip install x", "pip install"),
    ("FOO=1 pip install x && python t.py", "pip install"),
    ("(cd x; pip install .)", "pip install"),
    ("out=$(pip install x)", "pip install"),
    ("timeout 60 pip install x", "pip install"),
    ("poetry install", "poetry install"),
    ("python setup.py install", "setup.py install"),
    ('bash -c "pip install x"', "pip install"),
    ('PIP=/opt/bin/pip\n"${PIP}" install x', "pip install"),
]
NO_LINES = [
    "# pip install x",
    "echo pip install x",
    "echo 'pip install x'",
    "pip --version",
    "python train.py # pip install x",
    "conda install pip",
    "apt-get install python3-pip",
]


@pytest.mark.parametrize(("source", "command"), CODE)
def test_each_way_of_python_code_to_install_packages_is_found(source: str, command: str) -> None:
    assert install_in("train.py", source) == install_in("", source) == command


@pytest.mark.parametrize(("text", "command"), LINES)
def test_each_way_of_a_shell_to_install_packages_is_found(text: str, command: str) -> None:
    assert install_in("run.sh", text) == install_in("run", text) == command


@pytest.mark.parametrize(("name", "text"), [*(("a.py", one) for one in NO_CODE), *(("a.sh", one) for one in NO_LINES)])
def test_comments_messages_and_other_commands_install_nothing(name: str, text: str) -> None:
    assert install_in(name, text) == ""


def test_a_program_in_python_is_read_as_python_whatever_its_name_is() -> None:
    program = "#!/usr/bin/env python3\n# pip install x\nimport os\nos.system('pip uninstall -y x')\n"
    assert install_in("tool", program) == "pip uninstall"


def test_most_scripts_need_not_be_parsed() -> None:
    assert not may_install("from sklearn.pipeline import Pipeline\nimport multiprocessing\nmultiprocessing.Pipe()\n")
    assert may_install("# pip install x")


@given(st.text("pip install uv-m{}()[]'\"\n#;&|$\\", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    install_in("a.sh", f"pip\n{text}")
    install_in("a.py", f"pip\n{text}")


@pytest.mark.parametrize(
    "blob", ["aGk5" * 125_000, "uv/" * 170_000, "'row' \"7\"\n" * 40_000], ids=["data", "uv", "rows"]
)
@pytest.mark.parametrize("name", ["", "run.sh"])
def test_no_long_literal_beside_a_command_is_parsed_as_a_shell_does(
    monkeypatch: pytest.MonkeyPatch, blob: str, name: str
) -> None:
    split, lengths = commands.shlex.split, [0]

    def count(text: str) -> list[str]:
        lengths.append(len(text))
        return split(text)

    monkeypatch.setattr(commands.shlex, "split", count)
    code = f"X = {blob!r}\nos.system('pip install -q x')" if not name else f"X={blob}\n'pip' install -q x"
    assert install_in(name, code) == "pip install"
    assert sum(lengths) < 1000


@pytest.mark.parametrize("code", ['PIP = "pip"\nos.system("$PIP install x")', "os.system(\"pip install 'a b'\")"])
def test_a_short_literal_is_parsed_whatever_names_pip(code: str) -> None:
    assert install_in("", code) == "pip install"
