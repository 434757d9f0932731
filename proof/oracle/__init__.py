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
RULES: tuple[Rule, ...] = (
    stock.received_goods_are_there_or_in_an_order,
    stock.each_stock_item_adds_up,
    stock.receipts_are_counted_once,
    stock.nothing_is_sold_that_is_not_there,
    prices.orders_cost_what_their_products_cost,
    prices.ended_products_are_not_sold,
    prices.answers_show_the_price_of_the_order,
    prices.later_states_keep_the_price,
    prices.codes_are_used_as_often_as_allowed,
    money.orders_record_the_money_that_came,
    money.the_shop_keeps_what_it_earned,
    money.offline_payments_are_what_staff_recorded,
    money.at_most_one_payment_can_be_confirmed,
    money.money_matches_its_order,
    money.refunds_are_paid_once,
    money.refunds_do_not_exceed_what_is_left,
    money.refunds_fail_for_a_reason,
    money.refunds_have_the_currency_of_their_payment,
    money.goodwill_is_what_staff_gave,
    money.returns_are_worth_what_was_paid,
    accounts.balances_are_what_was_issued_moved_and_spent,
    invoices.each_sold_order_has_one_invoice,
    invoices.invoices_show_what_was_sold,
    invoices.invoice_numbers_have_no_gaps,
    credit_notes.credit_notes_correct_the_invoice_of_their_order,
    credit_notes.credit_notes_are_what_was_refunded,
    credit_notes.credit_notes_leave_the_money_that_was_kept,
    credit_notes.credit_notes_fit_the_rows_of_their_invoice,
    credit_notes.credit_notes_have_the_taxes_of_their_rows,
    credit_notes.lists_of_documents_show_them_all,
    totals.best_sellers_are_the_pieces_sold,
    totals.final_months_stay_as_they_were,
    totals.minutes_are_the_sales_of_that_minute,
    totals.orders_were_paid_when_they_say,
    totals.ratings_are_the_stars_of_the_reviews,
    totals.reviews_are_the_last_ones_written,
    copies.lists_show_the_order,
    copies.lists_of_goods_show_the_order,
    copies.lists_by_time_have_everything_once,
    copies.pages_by_time_are_sorted,
    states.nothing_is_sent_without_sale,
    states.orders_end_for_a_reason,
    states.delivered_orders_have_arrived,
    states.returned_orders_came_back,
    states.finished_orders_wait_for_nothing,
    states.items_expire_in_time,
    answers.the_same_key_gets_the_same_answer,
    answers.nobody_sees_another_customer,
    answers.an_export_has_each_item_of_its_customer_once,
    mails.each_change_is_mailed_once,
    mails.mails_go_to_the_customer_of_the_order,
    mails.mails_show_the_amounts_of_the_order,
    webhooks.webhooks_get_every_event,
    webhooks.webhooks_get_nothing_else,
    webhooks.webhooks_get_an_event_again_for_a_reason,
    webhooks.webhooks_get_the_events_of_an_object_in_order,
    webhooks.webhooks_get_the_same_bytes,
    webhooks.webhooks_are_signed,
    webhooks.webhooks_wait_for_no_other,
)


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
