"""The query parameter `fields` of large answers: the API sends only the fields that the client names.

It exists on each route that returns a model with `always_sent`, or a list of it. DynamoDB still reads whole items.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast, get_type_hints

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware

from functions.api.http.fields import Listed, ResponseModel
from functions.api.http.problems import MalformedRequest, field_path

FIELDS = "fields"
MAX_UNKNOWN = 3
"""How many unknown names an error lists. Each entry repeats all known names, so more entries make the error long."""


@dataclass(frozen=True)
class Selectable:
    """An answer with selectable fields. `model`: declares the fields. `is_list`: whether the answer is a list."""

    model: type[ResponseModel]
    is_list: bool

    def shorten(self, body: Mapping[str, Any], selected: frozenset[str]) -> dict[str, Any]:
        """Return the body of an answer with only the selected fields."""
        if self.is_list:
            return {**body, "items": [_keep(item, selected) for item in body["items"]]}
        return _keep(body, selected)


@cache
def selectable_answer(handler: Callable[..., Any]) -> Selectable | None:
    """Return the selectable answer of a route's function, or None if it has no parameter `fields`."""
    answer = get_type_hints(handler).get("return")
    if not (isinstance(answer, type) and issubclass(answer, ResponseModel)):
        return None
    is_list = issubclass(answer, Listed)
    model = answer.__pydantic_generic_metadata__["args"][0] if is_list else answer
    return Selectable(model, is_list) if model.always_sent else None


def select_fields(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Middleware that removes unselected fields. Raises MalformedRequest before the route reads anything."""
    sent: Mapping[str, str] = app.current_event.query_string_parameters or {}
    answer = selectable_answer(app.context["_route"].func)
    if answer is None or FIELDS not in sent:
        return next_middleware(app)
    selected = _parse_names(sent[FIELDS], answer.model)
    response: Response[Any] = next_middleware(app)
    response.body = answer.shorten(cast(dict[str, Any], response.body), selected)
    return response


def describe_parameter(model: type[ResponseModel]) -> dict[str, Any]:
    """Return the parameter `fields` for the OpenAPI document. `model`: the model whose fields may be selected."""
    names = list(model.model_fields)
    example = [name for name in names if name not in model.always_sent][:2]
    return {
        "name": FIELDS,
        "in": "query",
        "required": False,
        "description": "The fields to send, separated by commas, for a shorter answer. Default: all fields. "
        f"Always sent: {', '.join(model.always_sent)}.",
        "style": "form",
        "explode": False,
        "schema": {"type": "array", "items": {"type": "string", "enum": names}, "minItems": 1},
        "example": example,
    }


def _parse_names(text: str, model: type[ResponseModel]) -> frozenset[str]:
    names = text.split(",")
    if unknown := list(dict.fromkeys(name for name in names if name not in model.model_fields)):
        why = f"is not a field of the answer; use {', '.join(model.model_fields)}"
        raise MalformedRequest(
            *((field_path((FIELDS, name)) if name else FIELDS, why) for name in unknown[:MAX_UNKNOWN])
        )
    return frozenset((*names, *model.always_sent))


def _keep(item: Mapping[str, Any], selected: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name in selected}
