"""Keep the answers to the last completions of uploads, apart, because requests of several threads share them.

A client that lost the answer completes its upload again. The object is there, and the upload is not, so only this
memory can tell the repeat from a request with a wrong id. S3 answers a repeat like the first request, too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

Place = tuple[str, str, str]
"""The folder of a bucket's uploads, the id of the upload, and its key."""
Answer = tuple[dict[str, str], dict[str, str]]
"""The content of the document, and the headers."""
MAX_ANSWERS = 1000


class CompletedUploads:
    """The answers of the last ``MAX_ANSWERS`` completions; a new process begins without any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[Place, Answer] = OrderedDict()

    def add(self, place: Place, answer: Answer) -> None:
        """Keep an answer, and drop the oldest one where there are too many."""
        with self._lock:
            self._answers[place] = answer
            while len(self._answers) > MAX_ANSWERS:
                self._answers.popitem(last=False)

    def find(self, place: Place) -> Answer | None:
        """Return the answer to a completion; None where there was none."""
        with self._lock:
            return self._answers.get(place)
