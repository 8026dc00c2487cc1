"""The subcommand about clients of AWS: lead them to jobs on this machine, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from jupyter_smx.kernel.subcommands.declaration import FAILURE, SUCCESS, Argument, Result, Subcommand
from jupyter_smx.kernel.text.pages import facts_page, text_page
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from jupyter_smx.aws_endpoint.environment import S3Place, Shell
    from jupyter_smx.kernel.subcommands.declaration import Surface

_NOTEBOOK = "%smx"
_SHELLS = ("bash", "fish", "dotenv", "json")
_PLACES = ("local", "aws")
_IMAGES = ("note", "match")
_ONLY_HERE = {"on": "notebook", "off": "notebook", "env": "terminal"}
_CURES = {
    "on": 'Run `eval "$(jupyter smx aws env)"`, which sets the variables of this shell.',
    "off": 'Run `eval "$(jupyter smx aws env --off)"`, which restores the variables of this shell.',
    "env": "Run `%smx aws on`, which sets the variables of this kernel.",
}


def _aws(found: Namespace, surface: Surface) -> Result:
    _check(found, "notebook" if surface.prog == _NOTEBOOK else "terminal", surface.prog)
    return _RUNS[found.action](found, surface)


def _on(found: Namespace, surface: Surface) -> Result:
    from jupyter_smx.aws_endpoint import switch  # noqa: PLC0415 - few use it, and each kernel loads this module

    sentence = switch.turn_on(surface.info, _place(found), switch.BACK_IN_A_NOTEBOOK)
    return _text(f"{sentence}. Clients that were made before keep AWS: make them again.")


def _off(_: Namespace, __: Surface) -> Result:
    from jupyter_smx.aws_endpoint import switch  # noqa: PLC0415

    if not switch.turn_off(os.environ):
        return _text("New clients of AWS reach AWS already.")
    return _text("New clients of AWS reach AWS. Clients that were made before keep training here: make them again.")


def _start(found: Namespace, surface: Surface) -> Result:
    from jupyter_smx.aws_endpoint import process  # noqa: PLC0415

    url = process.start_front(surface.info, _place(found), found.images or None).endpoint.url
    return _text(f"The front for clients of AWS listens at {url}.", url=url)


def _stop(_: Namespace, __: Surface) -> Result:
    from jupyter_smx.aws_endpoint import process  # noqa: PLC0415

    return _text("The front ended; jobs go on." if process.stop_front() else "No front runs.")


def _status(_: Namespace, __: Surface) -> Result:
    from jupyter_smx.aws_endpoint import environment, process  # noqa: PLC0415

    facts = process.describe_front() | {"clients_here": environment.is_on(os.environ)}
    return Result(facts, facts_page(facts), SUCCESS if facts["running"] else FAILURE)


def _profile(found: Namespace, surface: Surface) -> Result:
    from jupyter_smx.aws_endpoint import switch  # noqa: PLC0415

    made = switch.add_profile(found.name, os.environ, surface.info, _place(found))
    # A terminal shows words of magics as those of its own command, which has no `on`.
    other_way = "%smx aws on" if surface.prog == _NOTEBOOK else "jupyter smx aws env"
    text = (
        f"Profile {found.name} is in {made.path}: with AWS_PROFILE={found.name}, boto3 and the AWS CLI train here.\n"
        "SageMaker's SDK reads its defaults from another file, which a variable names:\n"
        f"{made.format_exports(found.name)}\n"
        "Leave `role=` out then: get_execution_role() calls AWS with each profile. "
        f"`{other_way}` leads it here, too."
    )
    return _text(text, path=str(made.path), sdk_config=str(made.sdk_config))


def _env(found: Namespace, surface: Surface) -> Result:
    from jupyter_smx.aws_endpoint import environment, switch  # noqa: PLC0415

    shell = cast("Shell", found.shell)
    if found.off:
        changes = environment.switch_off(os.environ)
        surface.info("New clients of AWS reach AWS." if changes else "New clients of AWS reach AWS already.")
    else:
        plan = switch.plan_on(os.environ, surface.info, _place(found), switch.BACK_IN_A_TERMINAL)
        changes = plan.changes
        surface.info(plan.sentence)
    record = {change.name: change.value for change in changes if not change.source}
    return Result(record, text_page(environment.format_changes(changes, shell)))


_RUNS: dict[str, Callable[[Namespace, Surface], Result]] = {
    "on": _on,
    "off": _off,
    "start": _start,
    "stop": _stop,
    "status": _status,
    "env": _env,
    "profile": _profile,
}
ACTIONS = tuple(_RUNS)


def _place(found: Namespace) -> S3Place | None:
    return cast("S3Place | None", found.s3 or None)


def _text(sentence: str, **facts: object) -> Result:
    return Result({"message": sentence, **facts}, text_page(sentence))


def _check(found: Namespace, surface: str, prog: str) -> None:
    """Check what no parser does.

    :raises ValidationError: an unknown action or value, or one of the other surface.
    """
    for name, value, choices in (
        ("action", found.action, ACTIONS),
        ("shell", found.shell, _SHELLS),
        ("s3", found.s3, ("", *_PLACES)),
        ("images", found.images, ("", *_IMAGES)),
    ):
        if value not in choices:
            raise ValidationError(
                f"{prog} aws: {value!r} is not one of its values.",
                field=name,
                value=value,
                cure=f"There are {', '.join(filter(None, choices))}.",
            )
    if _ONLY_HERE.get(found.action, surface) != surface:
        raise ValidationError(
            f"{prog} aws {found.action} works in a {_ONLY_HERE[found.action]} only.",
            field="action",
            value=found.action,
            rule="A process can change its own variables only.",
            cure=_CURES[found.action],
        )
    if found.images and found.action != "start":
        raise ValidationError(
            f"{prog} aws {found.action}: --images was given.",
            field="images",
            value=found.images,
            rule="It is chosen when the front starts.",
            cure=f"Write it as `jupyter smx aws start --images {found.images}`.",
        )
    if bool(found.name) is not (found.action == "profile"):
        raise ValidationError(
            f"{prog} aws {found.action}: {'a name is missing' if not found.name else 'a name was given'}.",
            field="name",
            value=found.name,
            rule="Only a profile has a name.",
            cure="Write it as `jupyter smx aws profile smx`.",
        )


AWS = Subcommand(
    "aws",
    "train here with clients of Amazon SageMaker, e.g. aws on",
    _aws,
    (
        Argument(name="action", metavar="ACTION", help=", ".join(ACTIONS), default="status", choices=ACTIONS),
        Argument(name="name", metavar="NAME", help="name of the profile, for profile"),
        Argument(
            name="shell",
            spellings=("--shell",),
            metavar="SHELL",
            default="bash",
            help=f"what env is for: {', '.join(_SHELLS)}",
            choices=_SHELLS,
        ),
        Argument(
            name="s3",
            spellings=("--s3",),
            metavar="PLACE",
            help="where buckets are: local (default) or aws",
            choices=_PLACES,
        ),
        Argument(
            name="images",
            spellings=("--images",),
            metavar="HOW",
            help="for start: match builds an environment with the version of a framework's image, note (default) runs "
            "the Python of the front and says so",
            choices=_IMAGES,
        ),
        Argument(name="off", spellings=("--off",), help="for env: print what restores the variables from before"),
    ),
)
