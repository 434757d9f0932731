"""Evaluates filter patterns of Lambda event source mappings for records of a DynamoDB stream.

Sources: Lambda developer guide, "Control which events Lambda sends to your function" (rule syntax, limits) and
"Using event filtering with a DynamoDB event source" (keys, typed attributes, `exists`). If these pages leave a rule
open, this module follows EventBridge.

A filter pattern is a JSON object shaped like the record. A record matches a pattern if all fields of the pattern match
(AND). A field matches if at least one value in its array matches (OR). A mapping accepts a record if the record matches
at least one pattern (OR). `$or` contains alternative patterns, which may name different fields. Three rules are easy to
miss:

- `exists` and every other operator match leaf values only. `{"S": "x"}` is not a leaf: write `Attr: {"S": [...]}`.
- A DynamoDB number is a string in the record (`{"N": "5"}`), so `numeric` never matches a DynamoDB number.
- A missing field matches only `exists: false`. `anything-but` never matches a missing field, but it can match null.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

MAX_PATTERN_CHARACTERS: Final = 4096
MAX_FILTERS: Final = 5
"""The maximum number of filters of one event source mapping. AWS raises this quota to 10 on request."""
KEYS: Final = ("dynamodb", "eventName", "userIdentity")
"""The top-level fields that a pattern may name. Lambda's guide names only `dynamodb`, but the other two fields work."""
MISSING: Final = object()

Matcher: TypeAlias = Callable[[object], bool]
Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilterCriteria:
    """The compiled filter patterns (JSON texts) of a mapping. Without patterns, every record matches.

    Raises ValueError with the path of a wrong field or operator. AWS rejects it with InvalidParameterValueException.
    """

    patterns: tuple[str, ...] = ()
    _matchers: tuple[Matcher, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.patterns) > MAX_FILTERS:
            raise ValueError(f"{len(self.patterns)} filters; a mapping may have {MAX_FILTERS}")
        matchers = tuple(_Compiler().compile_pattern(text) for text in self.patterns)
        object.__setattr__(self, "_matchers", matchers)

    def matches(self, record: Mapping[str, object]) -> bool:
        """Return whether a record, in the shape of a Lambda event record, matches at least one filter pattern."""
        return not self._matchers or any(matches(record) for matches in self._matchers)


class _Compiler:
    """Compiles a filter pattern into a predicate on records. Raises ValueError if the pattern is invalid."""

    def __init__(self) -> None:
        self._operators: dict[str, Callable[[object, Path], Matcher]] = {
            "exists": self._exists,
            "prefix": _compare_texts("prefix", str.startswith),
            "suffix": _compare_texts("suffix", str.endswith),
            "equals-ignore-case": _compare_texts(
                "equals-ignore-case", lambda value, text: value.lower() == text.lower()
            ),
            "anything-but": self._anything_but,
            "numeric": self._numeric,
        }

    def compile_pattern(self, text: str) -> Matcher:
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise ValueError(f"filter pattern of {len(text)} characters; {MAX_PATTERN_CHARACTERS} are allowed")
        try:
            # Lambda compares numbers as texts: 300 does not match 300.0. Decimal keeps the difference between 300 and
            # 300.0. A pattern may contain a key twice: json.loads then uses the last value.
            tree = json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"filter pattern is not JSON ({error}): {text[:200]}") from None
        return self._object(tree, ())

    def _object(self, tree: object, path: Path) -> Matcher:
        if not isinstance(tree, dict) or not tree:
            _reject(path, "an object with at least one field is expected")
        fields = [self._field(name, rule, path) for name, rule in tree.items()]

        def matches(value: object) -> bool:
            # If the value is a list, at least one element must match all fields of the pattern.
            if isinstance(value, list):
                return any(all(field(element) for field in fields) for element in value or [MISSING])
            return all(field(value) for field in fields)

        return matches

    def _field(self, name: str, rule: object, path: Path) -> Matcher:
        if name == "$or":
            return self._alternatives(rule, path)
        if not path and name not in KEYS:
            _reject((name,), f"a DynamoDB filter may start with {', '.join(KEYS)}")
        here = (*path, name)
        inner = self._leaf(rule, here) if isinstance(rule, list) else self._object(rule, here)
        return lambda value: inner(value.get(name, MISSING) if isinstance(value, dict | Mapping) else MISSING)

    def _alternatives(self, rule: object, path: Path) -> Matcher:
        if not isinstance(rule, list) or len(rule) < 2:
            _reject((*path, "$or"), "an array of two or more objects is expected")
        alternatives = [self._object(alternative, path) for alternative in rule]
        return lambda value: any(matches(value) for matches in alternatives)

    def _leaf(self, rules: list[object], path: Path) -> Matcher:
        if not rules:
            _reject(path, "an empty array matches nothing")
        tests = [self._rule(rule, path) for rule in rules]
        return lambda value: any(test(leaf) for leaf in _leaves(value) for test in tests)

    def _rule(self, rule: object, path: Path) -> Matcher:
        if isinstance(rule, list):
            _reject(path, "an array inside an array is not a rule")
        if not isinstance(rule, dict):
            return lambda value: self._equals(rule, value)
        if len(rule) != 1:
            _reject(path, "an operator is an object with one key")
        ((name, operand),) = rule.items()
        if name not in self._operators:
            _reject(path, f"operator {name!r} is not supported: use one of {', '.join(self._operators)}")
        return self._operators[name](operand, path)

    def _equals(self, expected: object, value: object) -> bool:
        if not isinstance(expected, Decimal):
            return type(expected) is type(value) and expected == value
        return _is_number(value) and str(expected) == json.dumps(value)

    def _exists(self, operand: object, path: Path) -> Matcher:
        if not isinstance(operand, bool):
            _reject(path, "exists takes true or false")
        return lambda value: (value is not MISSING) is operand

    def _anything_but(self, operand: object, path: Path) -> Matcher:
        if isinstance(operand, dict):
            _reject(path, "anything-but takes strings and numbers: an operator inside is EventBridge's, not Lambda's")
        excluded = operand if isinstance(operand, list) else [operand]
        if not excluded or not all(isinstance(one, str | Decimal) for one in excluded):
            _reject(path, "anything-but takes a string, a number, or an array of them")
        tests = [self._rule(one, path) for one in excluded]
        return lambda value: value is not MISSING and not any(test(value) for test in tests)

    def _numeric(self, operand: object, path: Path) -> Matcher:
        bounds = list(operand) if isinstance(operand, list) else []
        operators, numbers = tuple(bounds[::2]), bounds[1::2]
        if operators not in _RANGES or len(numbers) != len(operators) or not all(map(_is_decimal, numbers)):
            _reject(path, 'numeric takes ["<", 5], or a lower and then an upper bound: [">", 0, "<=", 5]')
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            _reject(path, "the lower bound of numeric is not below the upper")
        comparisons = [(_COMPARISONS[operator], number) for operator, number in zip(operators, numbers, strict=True)]

        def matches(value: object) -> bool:
            if not _is_number(value):
                return False
            number = Decimal(json.dumps(value))
            return all(holds(number, bound) for holds, bound in comparisons)

        return matches


_COMPARISONS: Final[Mapping[str, Callable[[Decimal, Decimal], bool]]] = {
    "=": lambda number, bound: number == bound,
    "<": lambda number, bound: number < bound,
    "<=": lambda number, bound: number <= bound,
    ">": lambda number, bound: number > bound,
    ">=": lambda number, bound: number >= bound,
}
_RANGES: Final = [(one,) for one in _COMPARISONS] + [(low, high) for low in (">", ">=") for high in ("<", "<=")]


def _leaves(value: object) -> list[object]:
    return [value] if isinstance(value, str) else list(_scalars(value)) or [MISSING]


def _scalars(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for element in value:
            yield from _scalars(element)
    elif not isinstance(value, Mapping):
        yield value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_decimal(value: object) -> bool:
    return isinstance(value, Decimal)


def _compare_texts(operator: str, holds: Callable[[str, str], bool]) -> Callable[[object, Path], Matcher]:
    def compile_operator(operand: object, path: Path) -> Matcher:
        if not isinstance(operand, str):
            _reject(path, f"{operator} takes a string")
        return lambda value: isinstance(value, str) and holds(value, operand)

    return compile_operator


def _reject(path: Path, reason: str) -> NoReturn:
    raise ValueError(f"filter pattern, at {'.'.join(path) or 'the top'}: {reason}")


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
