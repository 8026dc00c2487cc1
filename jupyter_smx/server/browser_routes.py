"""The Jupyter server's routes in TypeScript, separate so that ``make types`` can print ``src/api/_routes.ts``."""

from __future__ import annotations

import sys

from jupyter_smx.model.http_routes import served_routes

_HEAD = """\
// Made by `make types` from jupyter_smx/model/http_routes.py: change it there.

/** Method and path of each route of the Jupyter server, by its action. */
export const ROUTES = {
"""


def typescript() -> str:
    """Give the file's text."""
    rows = [f"  {route.action}: {{ method: '{route.method}', path: '{route.path}' }}" for route in served_routes()]
    return _HEAD + ",\n".join(rows) + "\n} as const;\n"


if __name__ == "__main__":
    sys.stdout.write(typescript())
