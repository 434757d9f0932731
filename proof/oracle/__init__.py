"""An oracle: it judges a simulation run with its own arithmetic, and shares no code with the product.

The invariants of the simulation compute with the product's own code, so an error in that code can falsify both sides.
The oracle keeps its own books from plain observations: what clients asked and were answered, what the payment provider
and the warehouse know, the events, the mails, and the stored items. Its constants are written by hand, from the
documentation and from what the simulated clients order. An import contract in pyproject.toml forbids it to import the
product.

    verdict = judge(observations)
    verdict.violations   # sentences such as "oracle_refunds_are_paid_once: refund ... was paid 2 times ..."
    verdict.premises     # how often each rule had something to check
    verdict.exceptions   # how many violations each exception allowed
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import getmembers, isfunction, signature

from proof.oracle import (
    accounts,
    answers,
    copies,
    credit_notes,
    invoices,
    mails,
    money,
    prices,
    states,
    stock,
    totals,
    webhooks,
)
from proof.oracle.books import Books
from proof.oracle.observations import Observations

Rule = Callable[[Books], Iterator[str]]
RULES: tuple[Rule, ...] = tuple(
    function
    for module in (
        stock, prices, money, accounts, invoices, credit_notes, totals, copies, states, answers, mails, webhooks
    )
    for name, function in getmembers(module, isfunction)
    if not name.startswith("_") and [*signature(function).parameters] == ["books"]
)  # fmt: skip
"""Every public function of these modules that takes only the books."""


@dataclass(frozen=True)
class Verdict:
    """The oracle's judgement: `violations` are sentences, `premises` counts how often each premise held.

    A premise is a text such as "refunds_are_paid_once: a card refund was paid", and begins with the name of its rule.
    `exceptions` counts the violations that each exception allowed, by a text of the same form.
    """

    violations: list[str]
    premises: Counter[str]
    exceptions: Counter[str]


def judge(seen: Observations) -> Verdict:
    """Check all rules. Each violation begins with "oracle_" and the name of its rule."""
    books, violations = Books(seen), []
    for rule in RULES:
        books.rule = rule.__name__
        violations += [f"oracle_{rule.__name__}: {sentence}" for sentence in rule(books)]
    return Verdict(violations, books.premises, books.exceptions)
