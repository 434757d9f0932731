"""Requests and deliveries that come twice, late, or at the same moment: each has its effect once."""

from datetime import timedelta

from functions.handlers import copies_reader
from functions.shop import customers, follows, idempotency, product_alerts, products
from functions.shop.shop import Caller
from local.world.harness import ANN, READERS, STAFF, WORKERS, ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import before_put_of, number, stored_items, stored_order, text

REFRESH_NAME = """
    if changed.row is ORDER and changed.event_name == "INSERT":
        customer_names.refresh_name(shop, changed.item)
"""


# idempotency keys -----------------------------------------------------------------------------------------------------
@detects("idempotency keys have 16 bits", edit_code(idempotency.IdempotencyKey.of, (".hex()[:32]", ".hex()[:4]")))
def test_two_receipts_add_to_the_stock_although_the_hashes_of_their_keys_begin_alike(harness: ShopHarness) -> None:
    """The first 16 bits of the keyed hashes of these two keys are equal."""
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    for key in ("key-383", "key-384"):
        products.receive_stock(harness.shop, STAFF, key, "mug", 7)
    (stock,) = stored_items(harness, "Stock")
    assert number(stock, "available") == 14


# names ----------------------------------------------------------------------------------------------------------------
@detects(
    "name is refreshed before the summary exists",
    edit_code(
        copies_reader.apply_record,
        ("        customer_names.refresh_name(shop, changed.item)\n", "        pass\n"),
        (
            "    write_copies(shop.table, changed, copies_todo)\n",
            REFRESH_NAME + "    write_copies(shop.table, changed, copies_todo)\n",
        ),
    ),
)
def test_an_order_gets_the_new_name_if_its_customer_is_renamed_just_before_its_summary_is_written(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    harness.process_all()
    order_id = harness.place_order()
    records = harness.new_records()

    def rename() -> None:
        customers.change_profile(harness.shop, ANN, ANN.id, "Ann Birch")
        renamed = harness.new_records()
        READERS["event_publisher"].handler({"Records": renamed}, None)
        assert (
            WORKERS["customer_name"].handler({"Records": harness.take_messages("customer_name")}, None)[
                "batchItemFailures"
            ]
            == []
        )

    with before_put_of("OrderSummary", rename):
        READERS["copies_reader"].handler({"Records": records}, None)
    harness.process_all()
    assert text(stored_order(harness, order_id), "customer_name") == "Ann Birch"


# product alerts -------------------------------------------------------------------------------------------------------
@detects(
    "late page is not compared with its campaign",
    edit_code(
        product_alerts.get_follower_page,
        ("found.event_id == event.id else None", "(found.event_id == event.id or after) else None"),
    ),
)
def test_a_late_page_of_an_old_campaign_sends_no_mails_to_the_followers_of_a_new_one(harness: ShopHarness) -> None:
    """Four followers are two pages. The message about the second page is delivered after the next price drop."""
    harness.open_shop()
    harness.process_all()
    for name in ("bo", "cy", "di", "ed"):
        caller = Caller(name)
        customers.register_customer(harness.shop, caller, f"{name}@example.com", name)
        follows.follow_product(harness.shop, caller, "mug")
    harness.process_all()

    def drop_price(price: int) -> list[dict[str, object]]:
        """Drop the price and notify the first page of followers. Return the messages about the second page."""
        products.update_product(harness.shop, STAFF, "mug", price=price)
        READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
        assert (
            WORKERS["product_alert"].handler({"Records": harness.take_messages("product_alert")}, None)[
                "batchItemFailures"
            ]
            == []
        )
        return harness.take_messages("product_alert")

    late = drop_price(1000)
    harness.clock_offset += timedelta(days=2)
    drop_price(900)
    assert len(harness.sent_mails()) == 6
    assert WORKERS["product_alert"].handler({"Records": late}, None)["batchItemFailures"] == []
    assert len(harness.sent_mails()) == 6
