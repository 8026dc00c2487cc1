"""The table of routes: each row has an action, each action a row, and what is written elsewhere follows from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from jupyter_smx.controller.api import actions as controller_actions
from jupyter_smx.controller.api import handlers
from jupyter_smx.model import http_routes
from jupyter_smx.model.http_routes import ROUTES, SERVER_ROUTES, Proxy, QueryParameter, Route, served_routes
from jupyter_smx.server import browser_routes
from jupyter_smx.server import routes as server_routes
from jupyter_smx.server.handlers import actions as server_actions

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "jupyter_smx" / "kernel" / "client" / "client.py"


def test_every_row_has_one_action_of_the_controller_and_every_action_a_row() -> None:
    names = [route.action for route in ROUTES]
    assert len(set(names)) == len(names)
    assert set(names) == set(controller_actions.ACTIONS) == set(get_args(http_routes.Action))
    functions = [action for module in controller_actions.MODULES for action in module.ACTIONS.values()]
    assert len({*functions}) == len(functions) == len(names)


def test_every_row_of_the_server_is_passed_on_or_has_an_action_there() -> None:
    own = {route.action for route in SERVER_ROUTES}
    assert own == set(get_args(http_routes.ServerAction))
    assert own <= set(server_actions.ACTIONS)
    assert set(server_actions.ACTIONS) <= {route.action for route in served_routes()}


def test_no_two_rows_have_one_method_and_path() -> None:
    for table in (ROUTES, served_routes()):
        keys = [(route.method, route.path) for route in table]
        assert len(set(keys)) == len(keys)


def test_a_proxy_passes_on_only_parameters_of_its_route() -> None:
    for route in ROUTES:
        if route.proxy is not None and route.proxy.query is not None:
            assert set(route.proxy.query) <= {each.name for each in route.query}, route.path


def test_every_parameter_of_a_query_belongs_to_a_row_and_is_read_by_an_action() -> None:
    parameters = {name for name, each in vars(http_routes).items() if isinstance(each, QueryParameter)}
    used = {id(each) for route in ROUTES for each in route.query}
    assert {name for name in parameters if id(getattr(http_routes, name)) not in used} == set()
    folder = ROOT / "jupyter_smx" / "controller" / "api"
    code = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert {name for name in parameters if not re.search(rf"\.query\((routes\.)?{name}\)", code)} == set()


def test_every_request_has_one_handler_and_its_path_matches_no_other() -> None:
    for made, prefix, table in (
        (handlers.make_handlers(ROUTES), "/v1/", ROUTES),
        (server_routes.ROUTES, "/jupyter-smx/", served_routes()),
    ):
        for route in table:
            path = prefix + route.path.replace("{ref}", "train").replace("{name:path}", "outputs/a.csv")
            found = [handler for pattern, handler in made if re.fullmatch(pattern, path)]
            assert [route.method.lower() in vars(handler) for handler in found] == [True], path


def test_a_row_that_is_added_to_the_table_is_served_by_the_jupyter_server_with_a_check_of_the_user() -> None:
    added: Route[str] = Route("POST", "jobs/{ref}/pause", "pause_job", "Pause a job.", "Job", proxy=Proxy())
    ((pattern, handler),) = server_routes.make_handlers([added])
    assert re.fullmatch(pattern, "/jupyter-smx/jobs/train/pause")
    assert not re.fullmatch(pattern, "/jupyter-smx/jobs/a/b/pause")
    method = vars(handler)["post"]
    assert method.__code__.co_name == "wrapper"
    assert method.__wrapped__.__code__.co_name == "inner", "authenticated, then authorized"
    assert "get" not in vars(handler)


def test_the_kernel_writes_no_path_of_its_own() -> None:
    code = re.sub(r'"""[\s\S]*?"""', "", CLIENT.read_text(encoding="utf-8"))
    assert "/v1" not in code


def test_the_routes_of_the_browser_are_those_of_the_table() -> None:
    assert (ROOT / "src" / "api" / "_routes.ts").read_text(encoding="utf-8") == browser_routes.typescript(), (
        "make types"
    )


def test_the_browser_writes_no_path_of_its_own() -> None:
    path = re.compile(r"[`'](?:jobs|pools|arrays)/|[`']\w+\?\w+=\$")
    files = [file for kind in ("*.ts", "*.tsx") for file in (ROOT / "src").rglob(kind)]
    found = [file.name for file in files if path.search(file.read_text(encoding="utf-8"))]
    assert sorted(found) == ["_routes.ts", "routes.spec.ts"]


def test_the_page_has_both_lists_of_routes() -> None:
    page = (ROOT / "docs" / "developers" / "http.md").read_text(encoding="utf-8")
    assert re.findall(r"```\{smx\} routes (\w+)\n```", page) == ["server", "controller"]
