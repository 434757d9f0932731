"""Credit notes: together they take off the invoice what the shop gave back, each amount once and with its tax."""

from functools import partial

from functions.model.entities import TaxRate
from functions.shop import cancellation, credit_notes, refunds, returns, taxes
from local.world.harness import ANN, READERS, STAFF, WAREHOUSE, ShopHarness
from proof.mutants.items import Image, number, stored_items, stored_order, text
from proof.support.actors import report_dispute, set_shipping_prices
from proof.support.client_faults import run_before_call


def deliver_orders(harness: ShopHarness, count: int, mugs: int = 3, shipping: int = 0) -> list[str]:
    """Place, pay and deliver orders of mugs for 12.50 with 20 % tax. Return their ids."""
    harness.open_shop(available=100)
    set_shipping_prices(harness.shop, EUR=shipping)
    rate = TaxRate(destination="*", tax_class="standard", valid_from="2000-01-01", rate=2000)
    taxes.replace_tax_table(harness.shop, STAFF, [rate])
    ids = [harness.place_order(f"key-{one}", mug=mugs) for one in range(count)]
    for order_id in ids:
        harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
    harness.process_all()
    for order_id in ids:
        harness.dispatch_order(order_id)
        harness.deliver_order(order_id)
    harness.process_all()
    return ids


def take_back(harness: ShopHarness, order_id: str, key: str, *, shipping: bool = False) -> None:
    """Enter the return of a mug, without the reactions to it."""
    back = {"mug": returns.ReturnedGoods(1, restock=True)}
    returns.return_goods(harness.shop, STAFF, f"{key} {order_id}", order_id, back, refund_shipping=shipping)


def issue(harness: ShopHarness, order_id: str) -> None:
    credit_notes.issue_credit_note(harness.shop, order_id)


def stored_notes(harness: ShopHarness) -> list[Image]:
    """Return all credit notes, by number."""
    notes = [one for one in stored_items(harness, "Invoice") if "corrects" in one]
    return sorted(notes, key=lambda one: text(one, "invoice_id"))


def totals(harness: ShopHarness) -> list[int]:
    return [number(note, "total") for note in stored_notes(harness)]


def taxes_of(*documents: Image) -> int:
    return sum(number(tax["M"], "tax") for one in documents for tax in one["taxes"]["L"])


def test_a_worker_whose_order_got_its_credit_note_meanwhile_issues_no_other(harness: ShopHarness) -> None:
    (order_id,) = deliver_orders(harness, 1)
    for count, operation in enumerate(("GetItem", "Query", "TransactWriteItems"), 1):
        take_back(harness, order_id, operation)
        with run_before_call("dynamodb", operation, partial(issue, harness, order_id)):
            issue(harness, order_id)
        harness.process_all()
        assert totals(harness) == [1250] * count, operation


def test_two_workers_take_different_numbers_for_the_credit_notes_of_two_orders(harness: ShopHarness) -> None:
    first, second, third, fourth = deliver_orders(harness, 4)
    for order_id, other in ((first, second), (third, fourth)):  # the first numbers of a year, and later ones
        take_back(harness, order_id, "back")
        take_back(harness, other, "back")
        with run_before_call("dynamodb", "TransactWriteItems", partial(issue, harness, other)):
            issue(harness, order_id)
    notes = [(text(note, "invoice_id")[-8:], text(note, "order_id")) for note in stored_notes(harness)]
    assert notes == [("00000001", second), ("00000002", first), ("00000003", fourth), ("00000004", third)]


def test_a_second_return_is_credited_without_the_first(harness: ShopHarness) -> None:
    (order_id,) = deliver_orders(harness, 1)
    for key in ("one", "two"):
        take_back(harness, order_id, key)
        harness.process_all()
    assert totals(harness) == [1250, 1250]


def test_an_order_without_a_change_gets_no_credit_note(harness: ShopHarness) -> None:
    (order_id,) = deliver_orders(harness, 1)
    issue(harness, order_id)
    assert totals(harness) == []


def test_goodwill_is_credited(harness: ShopHarness) -> None:
    (order_id,) = deliver_orders(harness, 1)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all()
    assert totals(harness) == [100]


def test_a_refund_before_the_invoice_is_credited_after_it(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    issue(harness, order_id)  # the event of the refund comes before the event of the payment
    assert totals(harness) == []
    harness.process_all()
    assert totals(harness) == [100]


def test_an_order_that_is_cancelled_after_its_invoice_is_credited_as_a_whole(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    harness.process_all()
    assert totals(harness) == [2500]


def test_a_return_after_a_lost_dispute_is_credited_with_its_value(harness: ShopHarness) -> None:
    (order_id,) = deliver_orders(harness, 1, shipping=490)
    report_dispute(harness.shop, f"pi-{order_id}", "lost")
    for key in ("one", "two"):
        take_back(harness, order_id, key, shipping=True)
        harness.process_all()
    assert totals(harness) == [1250 + 490, 1250]
    credit_notes.document_withdrawal(harness.shop, STAFF, "document", order_id)
    harness.process_all()
    assert totals(harness) == [1250 + 490, 1250, 1250]


def test_the_taxes_of_all_pieces_are_the_tax_of_the_invoice(harness: ShopHarness) -> None:
    """The tax of 37.50 is 6.25. The tax of 12.50 is 2.08."""
    (order_id,) = deliver_orders(harness, 1)
    for key in ("one", "two", "three"):
        take_back(harness, order_id, key)
        harness.process_all()
    notes = stored_notes(harness)
    (invoice,) = [one for one in stored_items(harness, "Invoice") if one not in notes]
    assert taxes_of(*notes) == taxes_of(invoice) == 625
    assert [taxes_of(note) for note in notes] == [208, 209, 208]


def test_an_order_is_not_archived_before_its_credit_note(harness: ShopHarness) -> None:
    (order_id,) = deliver_orders(harness, 1)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100, "credit")
    harness.process_all(is_delivered=lambda function, _: function != "fulfilment")  # its queue has an outage of a year
    harness.advance_days(400)
    harness.process_all()
    assert text(stored_order(harness, order_id), "type") == "Order"
    READERS["event_publisher"].handler({"Records": harness.all_records}, None)
    harness.process_all()
    assert totals(harness) == [100]
    harness.advance_days(8)
    harness.process_all()
    assert text(stored_order(harness, order_id), "type") == "ArchivedOrder"
