"""Extend the Powertools router: find the route of a request, and reject unknown query parameters and body fields."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Router as Undecided
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware

from functions.api.http.guard import METHODS_WITH_BODY
from functions.api.http.problems import MalformedRequest, MethodNotAllowed, RouteNotFound

INVALID_PATH = ("path", "contains a character that is not allowed in ids")


@dataclass(frozen=True)
class Route:
    """A route of the API: its method, such as GET, its path, such as /orders/{order_id}, and its handler function.

    `pattern`: a regular expression that matches the paths of requests to this route.
    """

    method: str
    path: str
    pattern: re.Pattern[str]
    handler: Callable[..., Any]

    @property
    def key(self) -> str:
        """Return the route key as API Gateway writes it, such as "GET /orders/{order_id}"."""
        return f"{self.method} {self.path}"

    def path_parameters(self, path: str) -> Mapping[str, str]:
        """Return the parameters in the path of a request to this route, such as {"order_id": ...}."""
        found = self.pattern.fullmatch(path)
        return found.groupdict() if found else {}


class Router(Undecided):
    """Collects the routes of one module in functions/api/routes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]


class ApiResolver(APIGatewayHttpResolver):
    """The Powertools resolver with validation of the input. `known_routes`: all routes of the API."""

    def __init__(self) -> None:
        super().__init__(enable_validation=True, response_validation_error_http_code=500, debug=False)
        self.known_routes: list[Route] = []
        self.use(middlewares=[_reject_unknown_input])
        self.exception_handler(Exception)(_reraise)
        self.not_found(_reject_path)

    def route(self, rule: str, method: Any, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
        """Register a route with the resolver and add it to `known_routes`."""
        register = super().route(rule, method, *arguments, **settings)

        def remember(answer: Callable[..., Any]) -> Any:
            path = re.sub(r"<(\w+)>", r"{\1}", rule)
            pattern = re.compile(re.sub(r"<(\w+)>", r"(?P<\1>[^/]+)", rule))
            methods = [method] if isinstance(method, str) else method
            self.known_routes += [Route(name.upper(), path, pattern, answer) for name in methods]
            return register(answer)

        return remember

    def find_route(self, method: str, path: str) -> Route:
        """Return the route of a request.

        Raises RouteNotFound if no route has this path, MethodNotAllowed if the path has no such method, and
        MalformedRequest if the path ends with a newline.
        """
        there = [route for route in self.known_routes if route.pattern.fullmatch(path)]
        if not there:
            raise RouteNotFound
        if path.endswith("\n"):  # Powertools would ignore this newline, because its patterns end with $: reject it here
            raise MalformedRequest(INVALID_PATH)
        for route in there:
            if route.method == method:
                return route
        raise MethodNotAllowed(sorted(route.method for route in there))


def _reraise(error: Exception) -> Response[Any]:
    """Raise the error again. The Lambda handler converts errors to answers, so the router must not convert them."""
    raise error


def _reject_path(_: Exception) -> Response[Any]:
    """Raise MalformedRequest, because an id in the path contains a character that Powertools does not allow.

    Powertools calls this function if it finds no route for a path. `find_route` has already rejected paths of unknown
    routes. So the only possible cause is a character in an id.
    """
    raise MalformedRequest(INVALID_PATH)


def _reject_unknown_input(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Middleware that raises MalformedRequest if a request has unknown input.

    Unknown input is an unknown query parameter, or a body field if the route takes no body. Without this check, the
    router would ignore such input. For example, a list with a misspelled filter would return all items.
    """
    takes = app.context["_route"].dependant
    known = {parameter.alias for parameter in takes.query_params}
    sent: Mapping[str, Any] = app.current_event.query_string_parameters or {}
    unknown = [name for name in sent if name not in known]
    if not takes.body_params and app.current_event.body and app.current_event.http_method in METHODS_WITH_BODY:
        unknown += app.current_event.json_body
    if unknown:
        raise MalformedRequest(*((name, "is not a known parameter or field") for name in unknown))
    return next_middleware(app)
