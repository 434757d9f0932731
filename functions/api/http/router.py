"""Extend the Powertools router: find the route of a request, import its module, and reject unknown input."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Router as Undecided
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware

from functions.api.http.field_selection import FIELDS, select_fields, selectable_answer
from functions.api.http.guard import METHODS_WITH_BODY, parse_json_object
from functions.api.http.problems import MalformedRequest, MethodNotAllowed, RouteNotFound
from functions.model.public_routes import GUEST_ROUTES

INVALID_PATH = ("path", "contains a character that is not allowed in ids")
GUEST_PREFIX = "/guest"
ROUTE_MODULES = "functions.api.routes"


@dataclass(frozen=True)
class Route:
    """A route of the API: its method, such as GET, and its path, such as /orders/{order_id}.

    `module`: the name of the module in functions/api/routes that declares the route.
    """

    method: str
    path: str
    module: str

    @property
    def key(self) -> str:
        """Return the route key as API Gateway writes it, such as "GET /orders/{order_id}"."""
        return f"{self.method} {self.path}"

    def path_parameters(self, path: str) -> dict[str, str] | None:
        """Return the path parameters, such as {"order_id": ...}, or None if the path does not match this route."""
        names, values = self.path.split("/"), path.split("/")
        if len(names) != len(values):
            return None
        found = {}
        for name, value in zip(names, values, strict=True):
            if name.startswith("{") and value:
                found[name[1:-1]] = value
            elif name != value:
                return None
        return found


class Router(Undecided):
    """Collects the routes of a module in functions/api/routes. `handlers`: the route functions by route key."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.handlers: dict[str, Callable[..., Any]] = {}

    def route(self, rule: str, method: Any, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
        """Register a route, and its alias for guests if GUEST_ROUTES has one. Add its function to `handlers`."""
        methods = [method] if isinstance(method, str) else method
        path = re.sub(r"<(\w+)>", r"{\1}", rule)
        found = {prefix: [f"{name.upper()} {prefix}{path}" for name in methods] for prefix in ("", GUEST_PREFIX)}
        if not set(found[GUEST_PREFIX]) <= set(GUEST_ROUTES):
            del found[GUEST_PREFIX]
        registers = [super(Router, self).route(prefix + rule, method, *arguments, **settings) for prefix in found]

        def remember(answer: Callable[..., Any]) -> Any:
            self.handlers |= {key: answer for keys in found.values() for key in keys}
            for register in registers:
                register(answer)
            return answer

        return remember

    @property
    def app(self) -> "ApiResolver":
        """The resolver that answers with these routes."""
        return cast("ApiResolver", self.api_resolver)


class ApiResolver(APIGatewayHttpResolver):
    """The Powertools resolver with validation of the input.

    `known_routes`: all routes of the API. A route module is imported at the first request to one of its routes, because
    importing all modules takes a third of a cold start. `handlers`: the functions of the routes of the imported
    modules, by the key of the route.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        super().__init__(
            enable_validation=True,
            response_validation_error_http_code=500,
            debug=False,
            json_body_deserializer=parse_json_object,
        )
        self.known_routes = routes
        self.handlers: dict[str, Callable[..., Any]] = {}
        self.use(middlewares=[_reject_unknown_input, select_fields])
        self.exception_handler(Exception)(_reraise)
        self.not_found(_reject_path)

    def find_route(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a request with the path parameters, and import its module.

        Raises RouteNotFound, MethodNotAllowed, and MalformedRequest if the path ends with a newline.
        """
        there = [(route, ids) for route in self.known_routes if (ids := route.path_parameters(path)) is not None]
        if not there:
            raise RouteNotFound
        if path.endswith("\n"):  # Powertools would ignore this newline, because its patterns end with $: reject it here
            raise MalformedRequest(INVALID_PATH)
        for route, ids in there:
            if route.method == method:
                self.load(route)
                return route, ids
        raise MethodNotAllowed(sorted(route.method for route, _ in there))

    def load(self, route: Route) -> None:
        """Import the module of a route, and register all its routes with Powertools."""
        if route.key not in self.handlers:
            router: Router = import_module(f"{ROUTE_MODULES}.{route.module}").router
            self.include_router(router)
            self.handlers |= router.handlers

    def load_all(self) -> None:
        """Import the modules of all routes, to describe them."""
        for route in self.known_routes:
            self.load(route)


def _reraise(error: Exception) -> Response[Any]:
    """Raise the error again. The Lambda handler converts errors to answers, so the router must not convert them."""
    raise error


def _reject_path(_: Exception) -> Response[Any]:
    """Raise MalformedRequest: Powertools finds no route only for an id with a character that it does not allow."""
    raise MalformedRequest(INVALID_PATH)


def _reject_unknown_input(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Raise MalformedRequest for unknown input: with a misspelled filter, a list would return all items."""
    takes = app.context["_route"].dependant
    known = {parameter.alias for parameter in takes.query_params}
    if selectable_answer(app.context["_route"].func):
        known.add(FIELDS)
    sent: Mapping[str, Any] = app.current_event.query_string_parameters or {}
    unknown = [name for name in sent if name not in known]
    if not takes.body_params and app.current_event.body and app.current_event.http_method in METHODS_WITH_BODY:
        unknown += app.current_event.json_body
    if unknown:
        raise MalformedRequest(*((name, "is not a known parameter or field") for name in unknown))
    return next_middleware(app)
