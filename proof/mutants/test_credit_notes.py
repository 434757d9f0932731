"""Credit notes: an order stays in the table until its credit note is issued."""

from functions.model.entities import TaxRate
from functions.shop import refunds, taxes
from local.world.harness import READERS, STAFF, ShopHarness
from proof.mutants.items import Image, number, stored_items, stored_order, text
from proof.support.actors import set_shipping_prices


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


def stored_notes(harness: ShopHarness) -> list[Image]:
    """Return all credit notes, by number."""
    notes = [one for one in stored_items(harness, "Invoice") if "corrects" in one]
    return sorted(notes, key=lambda one: text(one, "invoice_id"))


def totals(harness: ShopHarness) -> list[int]:
    return [number(note, "total") for note in stored_notes(harness)]


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
