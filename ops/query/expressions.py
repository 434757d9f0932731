"""Compose the expressions of a read from an operator's texts, such as "status = SHIPPED AND total > 1000".

The texts have the syntax of DynamoDB's condition expressions, with attribute names and values instead of placeholders.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName
from functions.dynamodb.patterns import Get
from functions.model import table as t
from ops.attribute_types import attribute_type, attribute_types
from ops.query.patterns import InvalidArgument, Pattern, index_of

TOKEN = re.compile(r"""\s*(?:('[^']*'|"[^"]*")|(<>|<=|>=|[=<>(),])|([^\s(),<>='"]+))""")
PATH = re.compile(r"[^.\[\]]+(\[\d+\])*(\.[^.\[\]]+(\[\d+\])*)*")
NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
FUNCTIONS = {"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2}
"""The functions that are conditions, with the number of their arguments."""
SORT_KEY_OPERATORS = {"=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"}
ALL_KEY_ATTRIBUTES = tuple(name for pair in KEY_ATTRIBUTES.values() for name in pair)
MAX_KEY_BYTES = {"pk": 2048, "sk": 1024, "sk_to": 1024}
"""The longest partition and sort key that DynamoDB accepts."""
TABLE_PLACEHOLDERS = {
    "#pk": "", "#sk": "", "#field": "", "#ttl": "ttl", ":pk": "", ":sk": "", ":field": "", ":low": "", ":high": "",
    ":after": "", ":now": "",
}  # fmt: skip
"""The placeholders that functions/dynamodb/table.py uses itself. The value is the attribute, or "" if it varies."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Expressions to add to a GetItem or Query of an `index` ("" for none), with names and values."""

    key: str = ""
    index: IndexName = "main"
    filter: str = ""
    projection: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.key or self.filter or self.projection)

    def add_to(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a GetItem or Query with these expressions."""
        made, names = dict(request), dict(request.get("ExpressionAttributeNames", {}))
        if self.filter:
            old = made.get("FilterExpression")
            made["FilterExpression"] = f"({old}) AND ({self.filter})" if old else self.filter
        if self.projection:
            for placeholder in made.get("ProjectionExpression", "").split(", "):
                names.pop(placeholder, None)
            made["ProjectionExpression"] = self.projection
        if names := names | dict(self.names):
            made["ExpressionAttributeNames"] = names
        if values := {**made.get("ExpressionAttributeValues", {}), **self.values}:
            made["ExpressionAttributeValues"] = values
        return made


@dataclass
class ExpressionBuilder:
    """Replaces attribute names and values with placeholders. `types`: the known attributes, with their types.

    `owner`: the beginning of error messages, such as "the items have".
    """

    types: Mapping[str, str]
    owner: str
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)

    def add_path(self, text: str, option: str) -> str:
        """Return an attribute path, such as address.city, with placeholders."""
        if not PATH.fullmatch(text):
            raise InvalidArgument(option, "is no attribute path", f"{text} is no attribute path, such as address.city")
        root = re.split(r"[.\[]", text)[0]
        if root not in self.types:
            said = f"{self.owner} no attribute {root}; their attributes: {', '.join(self.types)}"
            raise InvalidArgument(option, f"names {root}, which is not an attribute there", said)
        return ".".join(
            self._placeholder("#", part.partition("[")[0], self.names) + "".join(re.findall(r"\[\d+\]", part))
            for part in text.split(".")
        )

    def add_value(self, path: str, value: dict[str, Any]) -> str:
        """Return a placeholder for a value in DynamoDB JSON. `path`: the attribute that is compared with the value."""
        return self._placeholder(":", re.split(r"[.\[]", path)[-1].rstrip("]"), self.values, value)

    def _placeholder(self, sign: str, name: str, taken: dict[str, Any], value: Any = None) -> str:
        value = name if value is None else value
        base = sign + re.sub(r"\W", "_", name, flags=re.ASCII)
        number, made = 1, base
        while taken.get(made, value) != value or TABLE_PLACEHOLDERS.get(made, value) != value:
            number += 1
            made = f"{base}{number}"
        taken[made] = value
        return made


@dataclass
class _Parser:
    """Reads one condition, and writes it with placeholders."""

    builder: ExpressionBuilder
    text: str
    option: str
    tokens: list[tuple[str, str]] = field(default_factory=list)

    def parse(self) -> str:
        position = 0
        while self.text[position:].strip():
            found = TOKEN.match(self.text, position)
            if found is None:
                raise self._error(f"a quote is not closed at {self.text[position:].strip()}")
            quoted, symbol, word = found.groups()
            self.tokens.append(("quoted", quoted[1:-1]) if quoted else ("symbol", symbol) if symbol else ("word", word))
            position = found.end()
        made = self._alternatives()
        if self.tokens:
            raise self._error(f"expected AND, OR or the end, not {self.tokens[0][1]}")
        return made

    def _alternatives(self) -> str:
        found = [self._conjunction()]
        while self._take_word("OR"):
            found.append(self._conjunction())
        return " OR ".join(found)

    def _conjunction(self) -> str:
        found = [self._condition()]
        while self._take_word("AND"):
            found.append(self._condition())
        return " AND ".join(found)

    def _condition(self) -> str:
        if self._take_word("NOT"):
            return f"NOT {self._condition()}"
        if self._take_symbol("("):
            inside = self._alternatives()
            self._expect(")")
            return f"({inside})"
        name = self._next("an attribute")
        if name in FUNCTIONS and self._take_symbol("("):
            return self._function(name)
        if name == "size" and self._take_symbol("("):
            path = self._next("an attribute")
            left = f"size({self.builder.add_path(path, self.option)})"
            self._expect(")")
            return self._comparison(path, left, "N")
        left = self.builder.add_path(name, self.option)
        return self._comparison(name, left, self.builder.types.get(name))

    def _function(self, name: str) -> str:
        path = self._next("an attribute")
        made = self.builder.add_path(path, self.option)
        if FUNCTIONS[name] == 2:
            self._expect(",")
            is_text = name != "contains" or self.builder.types.get(path) == "S"
            made += f", {self._value(path, 'S' if is_text else None)}"
        self._expect(")")
        self.builder.compared.append(path)
        return f"{name}({made})"

    def _comparison(self, path: str, left: str, tag: str | None) -> str:
        self.builder.compared.append(path)
        for operator in COMPARATORS:
            if self._take_symbol(operator):
                return f"{left} {operator} {self._value(path, tag)}"
        if self._take_word("BETWEEN"):
            low = self._value(path, tag)
            if not self._take_word("AND"):
                raise self._error("BETWEEN needs two values with AND between them")
            return f"{left} BETWEEN {low} AND {self._value(path, tag)}"
        if self._take_word("IN"):
            self._expect("(")
            found = [self._value(path, tag)]
            while self._take_symbol(","):
                found.append(self._value(path, tag))
            self._expect(")")
            return f"{left} IN ({', '.join(found)})"
        raise self._error(f"expected {', '.join(COMPARATORS)}, BETWEEN or IN after {path}")

    def _value(self, path: str, tag: str | None) -> str:
        if not self.tokens or self.tokens[0][0] == "symbol":
            raise self._error(f"a value is missing for {path}")
        kind, text = self.tokens.pop(0)
        if tag == "N" and not NUMBER.fullmatch(text):
            raise self._error(f"{path} needs a number, not {text}")
        if tag == "BOOL" and text not in ("true", "false"):
            raise self._error(f"{path} needs true or false, not {text}")
        if tag not in ("S", "N", "BOOL"):
            tag = "S" if kind == "quoted" else _tag_of_literal(text)
        value = {"N": text, "BOOL": text == "true", "NULL": True}.get(tag, text)
        return self.builder.add_value(path, {tag: value})

    def _next(self, wanted: str) -> str:
        if not self.tokens or self.tokens[0][0] != "word":
            raise self._error(f"expected {wanted}, not {self.tokens[0][1] if self.tokens else 'the end'}")
        return self.tokens.pop(0)[1]

    def _expect(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise self._error(f"expected {symbol} before {self.tokens[0][1] if self.tokens else 'the end'}")

    def _take_symbol(self, symbol: str) -> bool:
        return self._take(lambda token: token == ("symbol", symbol))

    def _take_word(self, word: str) -> bool:
        return self._take(lambda token: token[0] == "word" and token[1].upper() == word)

    def _take(self, is_wanted: Callable[[tuple[str, str]], bool]) -> bool:
        if not (self.tokens and is_wanted(self.tokens[0])):
            return False
        self.tokens.pop(0)
        return True

    def _error(self, why: str) -> InvalidArgument:
        return InvalidArgument(self.option, why, f"cannot read the {self.option} {self.text!r}: {why}")


def _tag_of_literal(text: str) -> str:
    if NUMBER.fullmatch(text):
        return "N"
    return {"true": "BOOL", "false": "BOOL", "null": "NULL"}.get(text, "S")


def compose_for_pattern(pattern: Pattern, filters: Sequence[str], projected: Sequence[str]) -> Composition:
    """Return filter and projection of an access pattern. Raises InvalidArgument, also for a filtered GetItem."""
    if filters and isinstance(pattern, Get):
        said = f"{pattern.id} is a GetItem, which has no filter: read the item, and look at it"
        raise InvalidArgument("filter", "is only for patterns that return several items", said)
    types = {name: attribute_type(hint) for row in pattern.rows for name, hint in row.fields.items()}
    types |= {"type": "S", "schema": "N"} | {
        name: "S" for row in pattern.rows for i in row.indexes for name in KEY_ATTRIBUTES[i]
    }
    return _compose(ExpressionBuilder(types, f"the items of {pattern.id} have"), index_of(pattern), filters, projected)


def compose_for_key_parts(
    index: IndexName,
    partition: str,
    operator: str,
    sort: Sequence[str],
    filters: Sequence[str],
    projected: Sequence[str],
) -> Composition:
    """Return the expressions of a query for a key in parts. `sort`: two values for BETWEEN, else one.

    `operator`: one of SORT_KEY_OPERATORS, or "". Raises InvalidArgument with the field pk, how, sk or sk_to.
    """
    values = {"pk": partition, **dict(zip(("sk", "sk_to"), sort, strict=False))}
    for field_name, text in values.items():
        if not text:
            raise InvalidArgument(field_name, "is required")
        most = MAX_KEY_BYTES[field_name]
        if not text.isprintable() or len(text.encode()) > most:
            raise InvalidArgument(field_name, f"has a character that no key can contain, or more than {most} bytes")
    if operator and operator not in SORT_KEY_OPERATORS:
        raise InvalidArgument("how", f"must be one of {', '.join(sorted(SORT_KEY_OPERATORS))}")
    builder = ExpressionBuilder(attribute_types() | dict.fromkeys(ALL_KEY_ATTRIBUTES, "S"), "the items have")
    names = KEY_ATTRIBUTES[index]
    placeholders = [builder.add_path(name, "key") for name in (names if operator else names[:1])]
    condition = f"{placeholders[0]} = {builder.add_value(names[0], {'S': partition})}"
    if operator:
        ends = [builder.add_value(names[1], {"S": text}) for text in sort]
        name, is_prefix = placeholders[1], operator == "begins_with"
        limits = f"begins_with({name}, {ends[0]})" if is_prefix else f"{name} {operator} {' AND '.join(ends)}"
        condition += f" AND {limits}"
    return _compose(builder, index, filters, projected, condition)


def _compose(
    builder: ExpressionBuilder, index: IndexName, filters: Sequence[str], projected: Sequence[str], key: str = ""
) -> Composition:
    parts = [_Parser(builder, text, "filter").parse() for text in filters]
    for name in builder.compared:
        if name in KEY_ATTRIBUTES[index]:
            said = f"{name} is a key of this query, and DynamoDB filters only by other attributes"
            raise InvalidArgument("filter", f"names the key {name}", said)
    shown = [name for name in projected if name]
    # The tool needs the sort key to continue after a page, and the attribute `type` to name the item.
    sent = list(dict.fromkeys([*shown, KEY_ATTRIBUTES[index][1], "type"])) if shown else []
    roots = {re.split(r"[.\[]", name)[0] for name in [*shown, *builder.compared]}
    _check_index_has(index, roots)
    if shown:
        builder.types = {**builder.types, KEY_ATTRIBUTES[index][1]: "S", "type": "S"}
    return Composition(
        key=key,
        index=index,
        filter=" AND ".join(f"({part})" if len(parts) > 1 and " OR " in part else part for part in parts),
        projection=", ".join(builder.add_path(name, "project") for name in sent),
        names=builder.names,
        values=builder.values,
    )


def _check_index_has(index: IndexName, names: set[str]) -> None:
    attributes = None if index == "main" else t.INDEX_PROJECTIONS[index.upper()]
    if attributes is None:
        return
    has = {*attributes, *KEY_ATTRIBUTES["main"], *KEY_ATTRIBUTES[index]}
    if missing := sorted(names - has):
        said = f"{index.upper()} does not contain {missing[0]}, so its queries can neither filter by it nor return it"
        raise InvalidArgument("filter or project", f"names {missing[0]}, which {index.upper()} does not contain", said)
