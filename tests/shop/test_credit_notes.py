"""Tests credit notes: what the shop gives back of an invoiced order is taken off its invoice, once and to the cent."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.model.entities import Invoice, Line, Order, TaxLine, TaxRate
from functions.model.errors import NotFound, TooMuch
from functions.model.patterns import INVOICES_OF_ORDER, PAYMENTS_OF_ORDER
from functions.model.pricing import SHIPPING, price_rows
from functions.shop import cancellation, credit_notes, taxes
from functions.shop.credit_notes import issue_credit_note
from functions.shop.fulfilment import fulfil_order
from functions.shop.invoices import get_invoice_of_order, list_invoices_of_customer, list_invoices_of_order
from functions.shop.lists import ListRequest
from functions.shop.placing import RequestedLine, place_order
from functions.shop.refunds import refund_order
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    HOME_ADDRESS,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    create_stocked_product,
    get_order,
    place,
    report_dispute,
    report_external_refund,
    set_shipping_prices,
    ship_part_then_cancel,
)
from proof.support.examples import many
from proof.support.samples import moment
from tests.shop.conftest import TappedShop
from tests.shop.test_discounts import offer
from tests.support.order_money import deliver_order, return_pieces


def sold(shop: ShopContext, key: str = "key-1", discount: int = 0, /, **quantities: int) -> Order:
    """Return a delivered order: mugs with 20 % tax, books with 10 %, and shipping of 4.90."""
    rates = {"standard": 2000, "books": 1000}
    taxes.replace_tax_table(
        shop,
        STAFF,
        [TaxRate(destination="*", tax_class=id, valid_from="2000-01-01", rate=it) for id, it in rates.items()],
    )
    code = offer(shop, f"CODE-{key.upper()}", discount).code if discount else None
    lines = {id: RequestedLine(quantity) for id, quantity in quantities.items()}
    set_shipping_prices(shop, EUR=490)
    placed = place_order(shop, ANN, key, lines, HOME_ADDRESS, {"key": key}, code).order
    assert isinstance(placed, Order)
    return deliver_order(shop, placed)


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """An order of three mugs (37.50), two books (2 * 9.99) and shipping (4.90), less 10 %: 56.63."""
    create_stocked_product(shop, "book", 1000, price=999, tax_class="books")
    return sold(shop, "key-1", 1000, mug=3, book=2)


def notes_of(shop: ShopContext, order: Order) -> list[Invoice]:
    """Issue the credit notes of an order, and return them all."""
    issue_credit_note(shop, order.order_id)
    documents = list(shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id))
    assert [one.kind for one in documents[1:]] == ["CREDIT_NOTE"] * (len(documents) - 1)
    return documents[1:]


def amounts(note: Invoice) -> dict[str, tuple[int, int]]:
    """Return the pieces and the amount of each line, and the amount of shipping."""
    rows = {id: (line.quantity, line.credited) for id, line in note.lines.items()}
    return rows | ({SHIPPING: (0, note.shipping)} if note.shipping else {})


def refunded(shop: ShopContext, order: Order) -> int:
    now = get_order(shop, order.order_id)
    assert now.credited == now.refunded + now.owed - now.undocumented
    return now.refunded


def test_an_order_that_keeps_its_money_has_no_credit_note(shop: TappedShop, order: Order) -> None:
    shop.wire.clear()
    assert issue_credit_note(shop, order.order_id) is None
    assert shop.wire.operations == ["GetItem", "Query"]
    assert notes_of(shop, order) == []


def test_a_return_is_credited_with_its_share_of_the_discount_and_of_the_taxes(shop: TappedShop, order: Order) -> None:
    shop.clock.sleep(60)
    back = return_pieces(shop, order, mug=1, book=1).result["amount"]
    shop.wire.clear()
    assert issue_credit_note(shop, order.order_id) == "CN-00000001"
    assert shop.wire.operations == ["GetItem", "Query", "TransactWriteItems"]
    assert dict(shop.wire.units_of) == {"GetItem": 1, "Query": 1, "TransactWriteItems": 7}
    invoice = get_invoice_of_order(shop, ANN, order.order_id)
    assert notes_of(shop, order) == [
        replace(
            invoice,
            invoice_id="CN-00000001",
            corrects="2026-00000001",
            issued_at=moment(1),
            paid_on="2026-11-21",
            created_at=moment(1),
            total=back,
            # book: 19.98 less 1.99, and half of it; mugs: 37.50 less 3.75, and a third of it
            lines={
                "book": Line(name="Blue book", price=999, quantity=1, tax_rate=1000, credited=899),
                "mug": Line(name="Blue mug", price=1250, quantity=1, credited=1125),
            },
            taxes=(TaxLine(rate=2000, net=937, tax=188), TaxLine(rate=1000, net=817, tax=82)),
            discount=None,
            shipping=0,
            payments=(),
        )
    ]
    assert back == 899 + 1125


def test_each_return_has_its_credit_note_and_together_they_are_the_invoice(shop: ShopContext, order: Order) -> None:
    return_pieces(shop, order, "one", mug=1)
    return_pieces(shop, order, "two", refund_shipping=True, mug=1)
    assert [amounts(note) for note in notes_of(shop, order)] == [{"mug": (2, 2250), SHIPPING: (0, 490)}], (
        "not yet issued"
    )
    return_pieces(shop, order, "three", mug=1, book=2)
    *_, last = notes = notes_of(shop, order)
    assert amounts(last) == {"mug": (1, 1125), "book": (2, 1799)}
    assert [note.invoice_id for note in notes] == ["CN-00000001", "CN-00000002"]
    invoice = get_invoice_of_order(shop, ANN, order.order_id)
    assert sums(notes) == sums([invoice])
    assert sum(note.total for note in notes) == invoice.total == refunded(shop, order)


def sums(documents: list[Invoice]) -> Counter[tuple[int, str]]:
    """Return the net amount and the tax by rate of these documents together."""
    found = Counter[tuple[int, str]]()
    for document in documents:
        for tax in document.taxes:
            found.update({(tax.rate, "net"): tax.net, (tax.rate, "tax"): tax.tax})
    return found


def test_goodwill_reduces_all_rows_and_a_later_return_only_what_is_left_of_them(
    shop: ShopContext, order: Order
) -> None:
    refund_order(shop, STAFF, "sorry", order.order_id, 1000)
    (first,) = notes_of(shop, order)
    # rows of 17.99, 33.75 and 4.90 share 10.00 in this sequence, each rounded down up to its end
    assert amounts(first) == {"book": (0, 317), "mug": (0, 596), SHIPPING: (0, 87)}
    return_pieces(shop, order, refund_shipping=True, mug=3, book=2)
    _, second = notes_of(shop, order)
    assert amounts(second) == {"book": (2, 1482), "mug": (3, 2779), SHIPPING: (0, 403)}
    assert sums([first, second]) == sums([get_invoice_of_order(shop, ANN, order.order_id)])


def test_goods_that_are_cancelled_after_the_invoice_are_credited(shop: ShopContext) -> None:
    whole = advance_to_status(shop, place(shop, "whole", mug=2), "CANCEL_REQUESTED")
    cancellation.agree_cancel(shop, WAREHOUSE, whole.order_id)
    assert [amounts(note) for note in notes_of(shop, whole)] == [{"mug": (2, 2500)}]
    part = advance_to_status(shop, place(shop, "part", mug=3), "FULFILLING")
    ship_part_then_cancel(shop, part.order_id, {"mug": 1})
    cancellation.agree_cancel(shop, WAREHOUSE, part.order_id)
    assert [amounts(note) for note in notes_of(shop, part)] == [{"mug": (2, 2500)}]


def test_an_order_that_is_cancelled_before_its_invoice_has_no_document(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop, mug=2), "PAID")
    refund_order(shop, STAFF, "sorry", order.order_id, 100)
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert issue_credit_note(shop, order.order_id) is None
    assert fulfil_order(shop, order.order_id) is None
    assert list(shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)) == []
    assert get_order(shop, order.order_id).undocumented == 0


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_refund_before_the_invoice_is_credited_with_it_or_by_the_next_attempt(
    shop: ShopContext, is_interrupted: bool
) -> None:
    order = advance_to_status(shop, place(shop, mug=2), "PAID")
    refund_order(shop, STAFF, "sorry", order.order_id, 100)
    assert issue_credit_note(shop, order.order_id) is None, "there is no invoice to correct"
    if is_interrupted:
        interrupted = mock.patch("functions.shop.fulfilment.issue_credit_note", side_effect=InterruptedError)
        with interrupted, pytest.raises(InterruptedError):
            fulfil_order(shop, order.order_id)
    fulfil_order(shop, order.order_id)
    kinds = [one.kind for one in shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)]
    assert kinds == ["INVOICE", "CREDIT_NOTE"]
    fulfil_order(shop, order.order_id)
    assert [amounts(note) for note in notes_of(shop, order)] == [{"mug": (0, 100)}]


def test_two_workers_issue_one_credit_note_at_the_turn_of_a_year(shop: TappedShop, order: Order) -> None:
    return_pieces(shop, order, mug=1)
    shop.clock.now = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    issued = []

    def overtake(rival: ShopContext) -> None:
        shop.clock.sleep(2)
        issued.append(issue_credit_note(rival, order.order_id))

    shop.meanwhile(overtake)
    assert (issue_credit_note(shop, order.order_id), issued) == (None, ["CN-00000001"])
    assert len(notes_of(shop, order)) == 1


# money that left outside the shop -------------------------------------------------------------------------------------
def undocumented(shop: ShopContext, limit: int = 20) -> list[tuple[str, int]]:
    page = credit_notes.list_undocumented_orders(shop, ListRequest(STAFF, limit))
    return [(order.order_id, order.undocumented) for order in page.items]


def test_money_that_leaves_outside_the_shop_waits_for_a_person(shop: ShopContext, order: Order) -> None:
    assert undocumented(shop) == []
    report_external_refund(shop, payment_of(shop, order.order_id), 300)
    assert (undocumented(shop), notes_of(shop, order)) == ([(order.order_id, 300)], [])
    done = credit_notes.document_withdrawal(shop, STAFF, "yes", order.order_id)
    assert done.result == {"order_id": order.order_id, "amount": 300, "currency": "EUR"}
    assert credit_notes.document_withdrawal(shop, STAFF, "yes", order.order_id).replayed
    assert ([note.total for note in notes_of(shop, order)], undocumented(shop)) == ([300], [])
    with pytest.raises(TooMuch):
        credit_notes.document_withdrawal(shop, STAFF, "again", order.order_id)


def test_goods_that_come_back_after_a_lost_dispute_are_credited_although_no_money_is_refunded(
    shop: ShopContext, order: Order
) -> None:
    report_dispute(shop, payment_of(shop, order.order_id), "lost")
    assert undocumented(shop) == [(order.order_id, order.total)]
    assert return_pieces(shop, order, mug=3).result["amount"] == 0
    assert [amounts(note) for note in notes_of(shop, order)] == [{"mug": (3, 3375)}]
    assert undocumented(shop) == [(order.order_id, order.total - 3375)]


def test_shipping_that_is_given_back_twice_after_a_lost_dispute_is_credited_once(
    shop: ShopContext, order: Order
) -> None:
    report_dispute(shop, payment_of(shop, order.order_id), "lost")
    for key in ("one", "two"):
        return_pieces(shop, order, key, refund_shipping=True, mug=1)
        notes = notes_of(shop, order)
    assert [amounts(note) for note in notes] == [{"mug": (1, 1125), SHIPPING: (0, 490)}, {"mug": (1, 1125)}]
    assert undocumented(shop) == [(order.order_id, order.total - 2 * 1125 - 490)]


def test_a_return_during_a_dispute_is_credited_once_however_the_dispute_ends(shop: ShopContext) -> None:
    for key, outcome in (("key-1", "won"), ("key-2", "lost")):
        order = sold(shop, key, mug=2)
        paid = payment_of(shop, order.order_id)
        report_dispute(shop, paid, "opened")
        return_pieces(shop, order, f"back {key}", mug=1)
        assert [note.total for note in notes_of(shop, order)] == [1250]
        report_dispute(shop, paid, outcome)  # type: ignore[arg-type]
        assert [note.total for note in notes_of(shop, order)] == [1250]
        assert get_order(shop, order.order_id).undocumented == (0 if outcome == "won" else order.total - 1250)


def payment_of(shop: ShopContext, order_id: str) -> str:
    (payment,) = shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order_id)
    return payment.payment_id


def test_an_order_lists_its_invoice_first_and_a_customer_all_documents(shop: ShopContext, order: Order) -> None:
    return_pieces(shop, order, mug=1)
    issue_credit_note(shop, order.order_id)
    of_order = list_invoices_of_order(shop, ListRequest(ANN, 2), order.order_id).items
    assert [one.kind for one in of_order] == ["INVOICE", "CREDIT_NOTE"]
    assert get_invoice_of_order(shop, ANN, order.order_id) == of_order[0]
    of_customer = list_invoices_of_customer(shop, ListRequest(ANN, 5), "ann").items
    assert {one.invoice_id for one in of_customer} == {one.invoice_id for one in of_order}
    with pytest.raises(NotFound):
        list_invoices_of_order(shop, ListRequest(BOB, 2), order.order_id)


# rules ----------------------------------------------------------------------------------------------------------------
@settings(max_examples=many(60, 12))
@given(data=st.data())
def test_credit_notes_never_exceed_a_row_and_add_up_to_what_was_given_back(
    shop: ShopContext, data: st.DataObject
) -> None:
    key = shop.new_id()
    price = st.integers(20, 9999)  # a lower price has no discount
    create_stocked_product(shop, f"book-{key}", 3, price=data.draw(price), tax_class="books")
    create_stocked_product(shop, f"cup-{key}", 3, price=data.draw(price))
    wanted = {f"{id}-{key}": data.draw(st.integers(1, 3)) for id in ("book", "cup")}
    order = sold(shop, key, data.draw(st.sampled_from([0, 700, 3333])), **wanted)
    invoice = get_invoice_of_order(shop, ANN, order.order_id)
    for step in range(data.draw(st.integers(1, 5))):
        now = get_order(shop, order.order_id)
        left = {id: line.delivered - line.returned for id, line in sorted(now.lines.items())}
        if data.draw(st.booleans()) and now.kept:
            refund_order(shop, STAFF, f"{key} {step}", order.order_id, data.draw(st.integers(1, now.kept)))
        elif back := {id: n for id, most in left.items() if (n := data.draw(st.integers(0, most)))}:
            return_pieces(shop, order, f"{key} {step}", refund_shipping=data.draw(st.booleans()), **back)
        notes = notes_of(shop, order) if data.draw(st.booleans()) else []
    notes = notes_of(shop, order)
    assert sum(note.total for note in notes) == refunded(shop, order)
    rows = Counter[str]()
    for note in notes:
        parts = {id: part for id, (_, part) in amounts(note).items()}
        assert min(*parts.values(), *(min(tax.net, tax.tax) for tax in note.taxes), 1) >= 0
        assert note.total == sum(parts.values()) == sum(tax.gross for tax in note.taxes)
        rows.update(parts)
    whole = {id: row.gross for id, row in price_rows(invoice).items()}
    assert all(rows[id] <= whole[id] for id in rows)
    if sum(rows.values()) == invoice.total:
        assert sums(notes) == sums([invoice])
