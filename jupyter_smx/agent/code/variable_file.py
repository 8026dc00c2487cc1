"""File format of variables: a pickle of ``{name: packed}``, followed by the large buffers unchanged.

``packed`` is the variable's own pickle (protocol 5), or ``(pickle, [size, …])`` where buffers of these sizes in bytes
were left out of it. They follow the first pickle in that order, each at a multiple of 64 bytes from the beginning of
the file, so that readers map them without a copy. Standard library only: the job's process and the kernel share this
form, and each brings the pickler of its own environment.
"""

from __future__ import annotations

import mmap
import pickle
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Tuple, Union

if TYPE_CHECKING:
    from typing import IO

PROTOCOL = 5
LARGE = 64 * 1024
"""Bytes from which a buffer stays out of the pickle; below, finding its page costs more than copying it."""
_ALIGNMENT = 64


class Packed:
    """One variable that is ready to be written: its pickle, and the memory that it refers to."""

    def __init__(self, value: Any, dumps: Callable[..., bytes]) -> None:
        self.buffers: List[memoryview] = []
        self.head = dumps(value, protocol=PROTOCOL, buffer_callback=self._stays_in)
        self.size = len(self.head) + sum(len(buffer) for buffer in self.buffers)

    def _stays_in(self, buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:
            return True  # it does not lie in one piece
        if len(raw) < LARGE:
            return True
        self.buffers.append(raw)
        return False


def write(file: Any, variables: Dict[str, Packed]) -> None:
    """Write variables to an empty file that has ``write``.

    :raises OSError: an error of the file.
    """
    index: Dict[str, Union[bytes, Tuple[bytes, List[int]]]] = {
        name: (one.head, [len(buffer) for buffer in one.buffers]) if one.buffers else one.head
        for name, one in variables.items()
    }
    first = pickle.dumps(index, protocol=PROTOCOL)
    file.write(first)
    at = len(first)
    for one in variables.values():
        for buffer in one.buffers:
            file.write(bytes(-at % _ALIGNMENT))
            file.write(buffer)
            at += -at % _ALIGNMENT + len(buffer)


def read(file: IO[bytes]) -> Iterator[Tuple[str, bytes, List[memoryview]]]:
    """Yield name, pickle and buffers of each variable, for ``loads(pickle, buffers=buffers)``.

    The buffers are private maps of the file's pages: they can be written to, and the file stays as it is.

    :raises OSError, pickle.UnpicklingError, EOFError, ValueError: the file cannot be read, or is no such file.
    """
    index = pickle.load(file)  # noqa: S301 - the user's own variables
    at = file.tell()
    mapped = memoryview(b"")
    if any(isinstance(packed, tuple) for packed in index.values()):
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    for name, packed in index.items():
        head, sizes = packed if isinstance(packed, tuple) else (packed, [])
        buffers = []
        for size in sizes:
            at += -at % _ALIGNMENT
            buffers.append(mapped[at : at + size])
            at += size
        if at > max(len(mapped), file.tell()):
            raise EOFError("the file is shorter than its variables")
        yield name, head, buffers
