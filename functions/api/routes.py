"""The router, and what it does not tell: which route a request is for, and what a path may be asked with."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Router as Undecided
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware

from functions.api.guard import WITH_BODY
from functions.api.problems import Malformed, NoSuchRoute, WrongMethod

STRANGE_PATH = ("path", "holds a character that no id has")


@dataclass(frozen=True)
class Known:
    """A route: `GET` of `/orders/{order_id}`, the pattern of its paths, and the function that answers."""

    method: str
    path: str
    pattern: re.Pattern[str]
    answer: Callable[..., Any]

    @property
    def key(self) -> str:
        """As API Gateway spells it: GET /orders/{order_id}."""
        return f"{self.method} {self.path}"

    def named(self, path: str) -> Mapping[str, str]:
        """What a path of this route says: {"order_id": ...}."""
        found = self.pattern.fullmatch(path)
        return found.groupdict() if found else {}


class Router(Undecided):
    """The routes of one noun."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]


class Routes(APIGatewayHttpResolver):
    """Powertools' router with validation, which also knows its routes by name."""

    def __init__(self) -> None:
        super().__init__(enable_validation=True, response_validation_error_http_code=500, debug=False)
        self.known: list[Known] = []
        self.use(middlewares=[_only_what_is_known])
        self.exception_handler(Exception)(_let_through)
        self.not_found(_strange_path)

    def route(self, rule: str, method: Any, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
        """Register a route as the router does, and remember it."""
        register = super().route(rule, method, *arguments, **settings)

        def remember(answer: Callable[..., Any]) -> Any:
            path = re.sub(r"<(\w+)>", r"{\1}", rule)
            pattern = re.compile(re.sub(r"<(\w+)>", r"(?P<\1>[^/]+)", rule))
            methods = [method] if isinstance(method, str) else method
            self.known += [Known(name.upper(), path, pattern, answer) for name in methods]
            return register(answer)

        return remember

    def find(self, method: str, path: str) -> Known:
        """The route of a request. Raises NoSuchRoute, WrongMethod, Malformed."""
        there = [route for route in self.known if route.pattern.fullmatch(path)]
        if not there:
            raise NoSuchRoute
        if path.endswith("\n"):
            raise Malformed(STRANGE_PATH)  # the router would pass over it: its patterns end with a $
        for route in there:
            if route.method == method:
                return route
        raise WrongMethod(sorted(route.method for route in there))


def _let_through(error: Exception) -> Response[Any]:
    """Errors leave the router as they are: there is one place that answers them, and it is not in here."""
    raise error


def _strange_path(_: Exception) -> Response[Any]:
    """The path was found to be one of ours, so it is an id in it that the router does not take for one."""
    raise Malformed(STRANGE_PATH)


def _only_what_is_known(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Refuse what the route does not know: a misspelled filter would answer with everything, a field be lost."""
    takes = app.context["_route"].dependant
    known = {parameter.alias for parameter in takes.query_params}
    sent: Mapping[str, Any] = app.current_event.query_string_parameters or {}
    unknown = [name for name in sent if name not in known]
    if not takes.body_params and app.current_event.body and app.current_event.http_method in WITH_BODY:
        unknown += app.current_event.json_body
    if unknown:
        raise Malformed(*((name, "is not known here") for name in unknown))
    return next_middleware(app)
