"""Declare the options of containers; see :mod:`jupyter_smx.model.options.table`."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from jupyter_smx.model.options.option import Option


class ContainerOptions(TypedDict, total=False):
    """What the containers of a job see of the machine, and the image that is built for them."""

    build: Annotated[
        str | None,
        Option(
            spellings=("--build",),
            value="location",
            metavar="FOLDER",
            example="docker",
            help="build the image of the hosts from a folder with a Dockerfile, or a Dockerfile, instead of --image",
            keyword_help="build the image of the hosts from a folder with a Dockerfile, or a Dockerfile, instead "
            "of ``image``",
            keyword_example="'docker'",
            field="build",
            target="engine",
            label="build",
        ),
    ]
    mounts: Annotated[
        Sequence[str] | None,
        Option(
            spellings=("--mount",),
            metavar="SOURCE:TARGET[:rw]",
            example="/data/images:/data",
            help="show a folder or a volume of the machine to the hosts, read-only or with :rw, if the configuration "
            "allows it (DockerEngine.allowed_mounts)",
            keyword_example="['/data/images:/data']",
            repeat=True,
            default=(),
            field="mounts",
            target="engine",
        ),
    ]
    shm_size: Annotated[
        int | str | None,
        Option(
            spellings=("--shm-size",),
            value="size",
            metavar="SIZE",
            example="8g",
            help="size of /dev/shm in the hosts' containers: bytes, or 512m, 8g",
            keyword_help="size of ``/dev/shm`` in the hosts' containers: bytes, or text like ``8g``",
            keyword_example="'8g'",
            default_text="half of the memory of the instance type",
            field="shm_size",
            target="engine",
            label="size of /dev/shm",
            configurable=True,
        ),
    ]
