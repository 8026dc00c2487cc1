"""The Jupyter server's routes in TypeScript, separate so that ``make types`` can print ``src/api/_routes.ts``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.http_routes import served_routes

if TYPE_CHECKING:
    from jupyter_smx.model.http_routes import Route

_HEAD = """\
// Made by `make types` from jupyter_smx/model/http_routes.py: change it there.

/**
 * Method and path of each route of the Jupyter server, by its action; at `postPath`, POST does the same as the method.
 */
export const ROUTES = {
"""


def typescript() -> str:
    """Return the content of the file."""
    return _HEAD + ",\n".join(_row(route) for route in served_routes()) + "\n} as const;\n"


def _row(route: Route[Any]) -> str:
    values = {"method": route.method, "path": route.path}
    if route.proxy is not None and route.proxy.post_path:
        values["postPath"] = route.proxy.post_path
    fields = ", ".join(f"{name}: '{value}'" for name, value in values.items())
    return f"  {route.action}: {{ {fields} }}"


if __name__ == "__main__":
    sys.stdout.write(typescript())
