"""What pip and uv say: steps for the job's message, and failures with the package and a cure. Recorded outputs."""

from __future__ import annotations

import pytest

from jupyter_smx.policy.lifecycle.pip_output import MAX_REASON, InstallProgress, failure_reason

PIP_NONE = """\
Looking in links: /w
ERROR: Could not find a version that satisfies the requirement nosuch==3 (from versions: none)
ERROR: No matching distribution found for nosuch==3
[notice] A new release of pip is available: 23.2.1 -> 26.3
"""
UV_NONE = """\
Using Python 3.11.7 environment at: ov
error: No solution found when resolving dependencies
  cause: Because nosuch was not found in the provided package locations and you require nosuch==3, we can conclude \
that your requirements are unsatisfiable.
"""
PIP_CONFLICT = """\
ERROR: Cannot install -r r.txt (line 2) and alpha==1.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested alpha==1.0
    gamma 1.0 depends on alpha>=2

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
"""
UV_CONFLICT = """\
error: No solution found when resolving dependencies
  cause: Because all versions of gamma depend on alpha>=2 and you require alpha==1.0, we can conclude that your \
requirements and all versions of gamma are incompatible.
         And because you require gamma, we can conclude that your requirements are unsatisfiable.
"""
PIP_BUILD = """\
Processing ./bad
  Getting requirements to build wheel: finished with status 'error'
  error: subprocess-exited-with-error

  × Getting requirements to build wheel did not run successfully.
  │ exit code: 1
  ╰─> [21 lines of output]
        File "<string>", line 1, in <module>
      RuntimeError: boom here
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

× Getting requirements to build wheel did not run successfully.
│ exit code: 1
╰─> See above for output.
"""
UV_OFFLINE = """\
error: Failed to fetch: `https://127.0.0.1:9/simple/zope-interface/`
  cause: error sending request for url (https://127.0.0.1:9/simple/zope-interface/)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
NO_ENSUREPIP = """\
The virtual environment was not created successfully because ensurepip is not
available.  On Debian/Ubuntu systems, you need to install the python3-venv
package using the following command.
"""


@pytest.mark.parametrize(
    ("output", "package", "said", "cure"),
    [
        (PIP_NONE, "nosuch==3", "No matching distribution found for nosuch==3.", "--index-url"),
        (UV_NONE, "nosuch", "you require nosuch==3", "--index-url"),
        (PIP_CONFLICT, "", "conflicting dependencies", "conflicting versions"),
        (UV_CONFLICT, "", "all versions of gamma depend on alpha>=2", "conflicting versions"),
        (PIP_BUILD, "bad", "RuntimeError: boom here.", "has a wheel"),
        (UV_OFFLINE, "zope-interface", "Connection refused", "index is unreachable"),
        (NO_ENSUREPIP, "", "python3-venv", "pip install uv"),
        ("OSError: [Errno 28] No space left on device\n", "", "No space left", "Free some space"),
    ],
)
def test_a_failure_names_package_exit_code_reason_and_cure(output: str, package: str, said: str, cure: str) -> None:
    reason, found = failure_reason(output.splitlines(), "pip ended with exit code 1")
    begin = f"{package} cannot be installed: " if package else ""
    assert reason.startswith(f"{begin}pip ended with exit code 1.")
    assert said in reason
    assert "notice" not in reason
    assert "subprocess-exited-with-error" not in reason
    assert cure in found


def test_a_silent_failure_still_says_how_it_ended() -> None:
    assert failure_reason([], "pip ended with exit code 137")[0] == "pip ended with exit code 137."


def test_a_flood_of_words_leaves_room_for_the_cure() -> None:
    assert len(failure_reason(["ERROR: " + "x" * 5_000] * 3, "uv ended with exit code 2")[0]) <= MAX_REASON


def test_the_steps_of_pip() -> None:
    narrator = InstallProgress()
    heard = [
        narrator.read_line(line)
        for line in (
            "Looking in indexes: https://pypi.example/simple",
            "Collecting requests==2.34 (from -r requirements.txt (line 1))",
            "  Downloading certifi-2026.10.18-py3-none-any.whl (134 kB)",
            "Collecting certifi>=2023.5.7 (from requests)",
            "Requirement already satisfied: idna in /base (3.20)",
            "Building wheels for collected packages: sgmllib3k",
            "Installing collected packages: certifi, requests, sgmllib3k",
        )
    ]
    assert heard == [
        "",
        "Collecting requests",
        "Downloading certifi-2026.10.18-py3-none-any.whl (134 kB)",
        "Collecting certifi (2 so far)",
        "",
        "Building sgmllib3k",
        "Installing 3 packages",
    ]


def test_the_steps_of_uv() -> None:
    narrator = InstallProgress()
    heard = [
        narrator.read_line(line)
        for line in (
            "Using Python 3.11.7 environment at: venv",
            "Resolved 3 packages in 1.26s",
            "   Building sgmllib3k==1.0.0",
            "Downloading numpy (16.1MiB)",
            " Downloaded numpy",
            "Prepared 3 packages in 1.59s",
            "Installed 3 packages in 18ms",
        )
    ]
    assert heard == [
        "",
        "Resolved 3 packages",
        "Building sgmllib3k, 1 of 3",
        "Downloading numpy (16.1MiB), 2 of 3",
        "",
        "Installing 3 packages",
        "",
    ]


def test_one_package_is_no_plural() -> None:
    assert InstallProgress().read_line("Resolved 1 package in 3ms") == "Resolved 1 package"
    assert InstallProgress().read_line("Installing collected packages: a") == "Installing 1 package"
