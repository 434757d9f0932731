"""Declares the mutants: bugs that the tests plant in the shop's code to test the invariants.

The invariants are checks of the whole simulated shop. They must detect each bug within the number of simulation runs
that the bug declares in `seeds`. For each invariant, there is a bug that only this invariant detects. This proves that
no invariant is superfluous.

Some bugs are in code that the invariants use too, so the invariants compute the same wrong values. The oracle must
detect these bugs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from functions.adapters import object_store
from functions.api.http import problems
from functions.api.routes.order_responses import OrderAnswer
from functions.dynamodb import writes
from functions.dynamodb.stream_batch import StreamBatch
from functions.handlers import (
    archive_worker,
    copies_reader,
    customer_erasure,
    customer_name_worker,
    event_publisher,
    order_deadlines,
)
from functions.handlers import order_notification_worker as mailing
from functions.mails import order_notifications as mail_texts
from functions.model import changes, copies, entities, errors, money, pricing, states, totals
from functions.model import table as t
from functions.runtime import dead_letters
from functions.runtime.queue_batch import MessageBatch
from functions.shop import (
    cancellation,
    customers,
    discounts,
    disputes,
    external_refunds,
    fulfilment,
    payments,
    placing,
    product_alerts,
    refund_processing,
    refunds,
    returns,
    reviews,
    shipments,
    stock,
    stock_parts,
)
from functions.shop import erasure as forgetting
from functions.shop.shop import Caller
from ops.commands import restore
from ops.repair import rebuild, total_checks
from tests.mutants.edits import edit_code
from tests.simulation import mutations as s
from tests.simulation.mutations import Plant, patch_attribute, replace_everywhere
from tests.simulation.world import Judge


@dataclass(frozen=True)
class Mutant:
    """A bug that a test plants in the shop's code to test the invariants (the checks of the simulated shop).

    The invariants must detect the bug within `seeds` simulation runs. The first run has the random seed `first_seed`,
    the next run has the next seed. All runs use `fierce`, which injects faults more often.

    `sole_invariant`: the only invariant that detects the bug in these runs. Empty: any invariant may detect it.

    `judge`: who must detect the bug. "oracle": the bug is in code that the invariants use too, so the oracle must
    detect it with all invariants switched off. `opens_at`: when the shop of these runs opens, in epoch seconds;
    None: the seed decides.
    """

    name: str
    description: str
    plant: Plant
    seeds: int = 30
    sole_invariant: str = ""
    first_seed: int = 1
    judge: Judge = "invariants"
    opens_at: float | None = None


BEFORE_MONTH_END = datetime(2026, 11, 30, 21, 35, tzinfo=UTC).timestamp()
"""One hour later, customers begin to order in three bursts of 40 minutes, the last one 5 minutes before December."""


def _problems_without(kind: type[Exception]) -> Mapping[type[Exception], problems.ProblemType]:
    return {one: answer for one, answer in problems.PROBLEM_TYPES.items() if one is not kind}


MUTANTS = (
    # The next bugs concern customers, their companies and the categories of products.
    Mutant(
        "keeps the address before",
        "a claim stays where a customer has another address",
        patch_attribute(customers, "delete_if_held_by", s.keep_claim),
        2,
        "customers_add_up",
    ),
    Mutant(
        "hangs in the air",
        "a category is made where there is none to put it into",
        s.skip_condition_checks(t.CATEGORY),
        3,
        "categories_hang_together",
        first_seed=9,
    ),
    Mutant(
        "claims apart",
        "an address is claimed when the profile has it",
        s.write_separately(t.EMAIL_CLAIM),
        first_seed=17,
    ),
    Mutant(
        "stays in the company",
        "who was forgotten is in their company's list",
        patch_attribute(forgetting, "replace_with", s.turn_keeping_index_keys),
        first_seed=12,
    ),
    Mutant(
        "forgets names",
        "a new name reaches no order",
        patch_attribute(customer_name_worker, "propagate_name", lambda *_: 0),
        1,
        "open_orders_bear_their_customers_name",
        first_seed=5,
    ),
    # The next bugs concern orders, stock and imports.
    Mutant(
        "a key is a new order",
        "the order's id is not made of the key",
        patch_attribute(placing, "derive_order_id", lambda shop, customer_id, key: shop.new_id()),
        2,
        "no_order_is_lost",
    ),
    Mutant("goods apart", "stock is written when the rest is done", s.write_separately(t.STOCK)),
    Mutant(
        "goods are gone",
        "an order that ends unpaid keeps its goods",
        patch_attribute(stock, "release", s.release_nothing),
        2,
        "stock_adds_up",
    ),
    Mutant(
        "sells what is not there",
        "stock is taken without a look",
        patch_attribute(stock, "reserve", s.take_without_condition),
        2,
        "stock_is_never_negative",
        first_seed=10,
    ),
    Mutant(
        "moves what is not there",
        "a resize moves pieces that buyers have taken meanwhile",
        patch_attribute(stock_parts, "_move_pieces", s.move_without_condition),
    ),
    Mutant(
        "gives back to the first",
        "an order that ends gives all its pieces back to part 0",
        patch_attribute(stock, "release", s.release_to_part_0),
        judge="oracle",
    ),
    Mutant("never expires", "an order that ends has no end", s.skip_writes(t.EXPIRY_MARKER)),
    Mutant(
        "assumes nothing",
        "what nobody speaks of is never delivered",
        patch_attribute(order_deadlines, "list_unconfirmed_orders", lambda *_: iter(())),
        3,
        "nothing_waits_for_ever",
    ),
    Mutant(
        "lines apart",
        "a line of an import is counted when it has been written",
        s.write_separately(t.IMPORT_PART),
        1,
        "imports_add_up",
        first_seed=30,
    ),
    # The next bugs concern discount codes, payments, credit accounts and refunds.
    Mutant(
        "codes are gone",
        "an order that ends early keeps its redemption",
        patch_attribute(discounts, "release", s.release_nothing),
        3,
        "discounts_add_up",
    ),
    Mutant("codes apart", "a redemption is written when the rest is done", s.write_separately(t.REDEMPTION_POOL)),
    Mutant(
        "credit apart",
        "the ledger's entry is written when the rest is done",
        s.write_separately(t.ENTRY),
        2,
        "ledgers_add_up",
        first_seed=3,
    ),
    Mutant(
        "balance apart",
        "an account's balance is written when the rest is done",
        s.write_separately(t.ACCOUNT),
        first_seed=11,
    ),
    Mutant(
        "a payment an event",
        "each event of a payment is another payment",
        patch_attribute(payments, "record_payment", s.payment_per_event),
        first_seed=2,
    ),
    Mutant(
        "claims a payment again",
        "a payment of the provider pays each order that it is reported for",
        patch_attribute(payments, "put_if_absent", s.put_claim_without_condition),
    ),
    Mutant(
        "keeps what is too much",
        "money that is not for the order is not given back",
        patch_attribute(payments, "_count_towards_order", s.count_without_refund),
        2,
        "money_is_kept",
    ),
    Mutant(
        "keeps what was paid",
        "an order that ends early keeps it",
        patch_attribute(cancellation, "plan_refunds", s.refund_nothing),
    ),
    Mutant(
        "keeps what it drops",
        "an order that is cut short gives nothing back",
        patch_attribute(cancellation, "refund_due", lambda *_: 0),
        5,
        first_seed=33,
    ),
    Mutant(
        "loses nothing",
        "a dispute that is lost takes nothing from its order",
        patch_attribute(disputes, "count_withdrawal", s.withdraw_nothing),
    ),
    Mutant(
        "refunds outside are free",
        "a refund that a person makes at the provider takes nothing from its order",
        patch_attribute(external_refunds, "count_withdrawal", s.withdraw_nothing),
    ),
    Mutant(
        "keeps for ever",
        "an event that came before its payment is never applied",
        patch_attribute(payments, "apply_kept_events", lambda *_: None),
        10,
        "no_event_waits_for_a_payment_that_came",
        first_seed=17,
    ),
    Mutant(
        "credits what is gone",
        "a refund is credited though its payment has no money left",
        patch_attribute(refund_processing, "_block_reason", s.block_only_disputed),
        10,
    ),
    Mutant(
        "owes nothing",
        "what a bank disputes is not owed when its order ends",
        s.combine(
            patch_attribute(cancellation, "plan_refunds", s.owe_nothing),
            patch_attribute(returns, "plan_refunds", s.owe_nothing),
        ),
        5,
        first_seed=130,
    ),
    Mutant(
        "asks anew",
        "a refund has another key each time",
        patch_attribute(refund_processing, "_send_to_provider", s.request_refund_with_new_key),
        3,
        "refunds_are_settled",
        first_seed=16,
    ),
    Mutant(
        "forgets what is back",
        "a payment does not know what was given back of it",
        patch_attribute(refund_processing, "replace", s.drop_refunded_amount),
        2,
        "payments_give_back_what_they_brought",
    ),
    Mutant("refunds apart", "a refund is written when the rest is done", s.write_separately(t.REFUND)),
    # The next bugs concern invoices.
    Mutant(
        "leaves out a number",
        "each batch of invoices takes one number too many",
        patch_attribute(fulfilment, "take_numbers", s.leave_out_a_number),
        2,
        "invoices_have_no_gaps",
    ),
    Mutant(
        "numbers apart",
        "an invoice's number counts as taken when the invoice is written",
        s.write_separately(t.INVOICE_SERIES),
        first_seed=4,
    ),
    # The next bugs concern shipments.
    Mutant("ships apart", "a shipment is written when its order says so", s.write_separately(t.SHIPMENT)),
    Mutant(
        "sends it twice",
        "what is left of a shipment is all of it",
        patch_attribute(shipments, "_remaining", s.resend_everything),
    ),
    Mutant(
        "one of each",
        "a shipment is asked for with one piece of each product",
        patch_attribute(fulfilment, "build_shipment", s.request_one_of_each),
        2,
        "parcels_hold_what_was_ordered",
    ),
    Mutant(
        "stops unasked",
        "an order is cancelled under the warehouse's hands",
        patch_attribute(cancellation, "cancel_order", s.cancel_without_asking),
        2,
        "parcels_are_sent_once",
        first_seed=19,
    ),
    Mutant(
        "sent is delivered",
        "a shipment that is sent counts as delivered",
        s.combine(
            patch_attribute(shipments, "apply_shipment_command", s.dispatch_as_delivered),
            patch_attribute(shipments, "replace", s.count_as_delivered),
        ),
        2,
        "states_move_as_allowed",
    ),
    # The next bugs concern the copies and totals that are derived from other items.
    Mutant(
        "no version guard",
        "an older copy overwrites a newer one",
        patch_attribute(copies_reader, "put_if_newer", s.without_condition(writes.put_if_newer)),
        2,
        "a_copy_never_goes_back",
        first_seed=6,
    ),
    Mutant(
        "leaves copies",
        "a copy that is there stays as it was",
        patch_attribute(copies_reader, "put_if_newer", s.put_if_absent),
        2,
        "snapshots_are_what_their_primaries_say",
        first_seed=2,
    ),
    Mutant(
        "forgets an event",
        "a log has no entry for a parcel that was sent",
        patch_attribute(copies, "plan_copy_changes", s.without_log_entry(t.ACTIVITY, "OrderShipped")),
        2,
        "activity_is_kept",
    ),
    Mutant(
        "forgets an entry",
        "a timeline has no entry for a parcel that was sent",
        patch_attribute(states, "append_entry", s.without_entry("OrderShipped")),
    ),
    Mutant(
        "enters the status before",
        "a timeline's entry for a parcel that was sent has the order's status before",
        patch_attribute(states, "append_entry", s.with_status_before("OrderShipped")),
        2,
        "timelines_have_no_gaps",
    ),
    Mutant(
        "activity anew",
        "an entry of activity has another id each time",
        patch_attribute(copies_reader, "put_if_absent", s.put_with_new_change_id),
        2,
        "activity_is_kept",
    ),
    Mutant(
        "counts again",
        "what is counted already is counted once more when it comes again",
        patch_attribute(totals, "plan_total_writes", s.count_again),
        2,
        "totals_add_up",
    ),
    Mutant(
        "counts apart",
        "that an item is counted is written when the rest is done",
        s.write_separately(t.CONTRIBUTION),
        2,
        "totals_add_up",
        first_seed=3,
    ),
    Mutant(
        "redrives as it was",
        "an old image is put into the copies again",
        patch_attribute(rebuild, "redrive_record", s.redrive_old_image),
        first_seed=5,
    ),
    Mutant(
        "replays anew",
        "what is replayed has another id each time",
        patch_attribute(rebuild, "_change_to_current_status", s.replay_with_new_id),
        first_seed=9,
    ),
    Mutant(
        "replays for ever",
        "what is replayed may be older than its effects are remembered",
        patch_attribute(rebuild, "MAX_REPLAY_AGE_DAYS", 100_000),
        first_seed=4,
    ),
    # The next bugs concern the stream, the queues and the event bus.
    Mutant("from the latest on", "a mapping begins with what is written after it", s.start_mappings_at("LATEST")),
    Mutant(
        "ids of deliveries",
        "a change's id is another each time it comes",
        patch_attribute(changes, "make_change_id", s.new_delivery_id),
    ),
    Mutant(
        "swallows failures",
        "a record that failed counts as done",
        patch_attribute(StreamBatch, "apply", s.swallow_failure),
    ),
    Mutant(
        "goes on",
        "later records of an item that failed are not held back",
        patch_attribute(StreamBatch, "retry_if_blocked", lambda *_: False),
        first_seed=16,
    ),
    Mutant(
        "tells not all",
        "events of one type are not published",
        patch_attribute(event_publisher, "_publish_entries", s.publish_except("PaymentCaptured")),
        2,
        "every_change_is_told",
    ),
    Mutant(
        "ignores refused events",
        "PutEvents answered 200, so all is well",
        patch_attribute(event_publisher, "_publish_entries", s.publish_ignoring_failures),
    ),
    Mutant(
        "gives up what may heal",
        "an event that is refused for now is parked for good",
        patch_attribute(
            event_publisher,
            "PERMANENT_ERROR_CODES",
            event_publisher.PERMANENT_ERROR_CODES | {"InternalFailure", "ThrottlingException"},
        ),
        first_seed=6,
    ),
    Mutant(
        "messages never fail",
        "a message that failed counts as done",
        patch_attribute(MessageBatch, "response", s.report_no_failures),
    ),
    Mutant(
        "parks no payload",
        "what is put aside is its id alone",
        patch_attribute(dead_letters, "dead_letter_writer", s.park_ids_only),
        2,
        "poison_is_parked",
    ),
    # The next bugs concern mails about orders.
    Mutant(
        "claims nothing",
        "a mail is sent by whoever comes",
        patch_attribute(mailing, "claim_order_notification", s.ignore_existing_claim),
    ),
    Mutant(
        "address before",
        "a mail goes to the first address that its customer had",
        patch_attribute(mailing, "get_mail_context", s.send_to_first_address),
    ),
    Mutant(
        "wrong address",
        "a mail goes to another's address",
        patch_attribute(mailing, "send_mail", s.send_to_another),
        2,
        "mails_are_sent_once",
    ),
    Mutant(
        "parks refused mails",
        "a mail that the mail provider refuses for now is put aside",
        patch_attribute(mailing, "defer_message", s.park_refused_mail),
        1,
        "no_mail_is_parked_that_can_be_sent",
        first_seed=11,
    ),
    # The next bugs concern mails to the followers of a product.
    Mutant(
        "first page only",
        "of the followers of a product only the first few are told",
        patch_attribute(product_alerts, "FollowerPage", s.first_page),
        2,
        "followers_told_once",
        first_seed=4,
    ),
    Mutant(
        "cools never",
        "every event of a product is told",
        patch_attribute(product_alerts, "CAMPAIGN_COOLDOWN_SECONDS", 0),
        1,
        "followers_told_once",
        first_seed=15,
    ),
    Mutant(
        "stock now",
        "whether a product was sold out is estimated from what its stock parts have now",
        patch_attribute(product_alerts, "_was_in_stock_before", s.compare_stock_now),
        1,
        "followers_told_once",
        first_seed=2,
    ),
    # The next bugs concern the S3 archive of closed orders, and the restore from the archive.
    Mutant(
        "archives no children",
        "an order's object holds the order alone",
        patch_attribute(archive_worker, "start_archiving", s.without_children),
        1,
        "the_archive_holds_what_ended",
        first_seed=4,
    ),
    Mutant(
        "deletes first",
        "what is archived is deleted before the object is there",
        patch_attribute(archive_worker, "archive_order", s.delete_first),
    ),
    Mutant(
        "overwrites",
        "an object takes the place of one that is there",
        patch_attribute(object_store, "put_if_absent", s.overwrite_object),
    ),
    Mutant(
        "restore that counts again",
        "an order that comes back from the archive counts as if it were new",
        patch_attribute(totals, "contribution_change_of", s.count_restored_order),
        2,
        "totals_add_up",
        first_seed=9,
    ),
    Mutant(
        "restores as if new",
        "what comes back from the archive does not say so",
        patch_attribute(restore, "RESTORED_ATTRIBUTE", "restored_once"),
    ),
    Mutant(
        "one line",
        "of some activity that ends together one entry is archived",
        patch_attribute(archive_worker, "archive_activity", s.archive_one_line),
        2,
        "activity_that_ended_is_archived",
    ),
    # The next bugs concern the erasure of a customer's personal data, and the product reviews of customers.
    Mutant(
        "forgets not all",
        "an erasure leaves what is in the archive",
        patch_attribute(customer_erasure, "_rewrite_archive_without_address", lambda *_: False),
        3,
        "who_was_forgotten_is_nowhere",
        first_seed=3,
    ),
    Mutant(
        "words stay",
        "what a customer wrote is not deleted",
        patch_attribute(customer_erasure, "erase_items", lambda *_: False),
        2,
        "who_was_forgotten_is_nowhere",
        first_seed=19,
    ),
    Mutant(
        "praise before delivery",
        "who says something of a product need not have it",
        patch_attribute(reviews, "_check_bought", lambda *_: None),
        2,
        "reviews_are_by_buyers",
        first_seed=5,
    ),
    Mutant(
        "forgets not what failed",
        "an erasure leaves what is in the failure store",
        patch_attribute(customer_erasure, "redact_failure_store", lambda *_: True),
    ),
    Mutant(
        "logs an address",
        "a log line of a sent mail says to whom it went",
        patch_attribute(mailing, "send_mail", s.log_recipient),
        1,
        "logs_name_nobody",
    ),
    # The next bug concerns the error responses of the API.
    Mutant(
        "a key reused is a fault",
        "an answer that was meant is a 500",
        patch_attribute(problems, "PROBLEM_TYPES", _problems_without(errors.IdempotencyKeyReused)),
        4,
        "every_answer_makes_sense",
    ),
    # The next bugs are in code that the invariants use too. The oracle must detect them.
    Mutant(
        "rounds discounts up",
        "a discount is rounded up instead of down",
        replace_everywhere(pricing, "discount_amount", s.round_discount_up),
        2,
        first_seed=10,
        judge="oracle",
    ),
    Mutant(
        "discounts shipping",
        "a discount is taken off the shipping too",
        replace_everywhere(pricing, "order_total", s.discount_shipping_too),
        2,
        first_seed=5,
        judge="oracle",
    ),
    Mutant(
        "three for two",
        "every third piece of a product costs nothing",
        replace_everywhere(pricing, "goods_total", s.every_third_piece_is_free),
        2,
        judge="oracle",
    ),
    Mutant(
        "rounds tax down",
        "the included tax is rounded down instead of half up",
        replace_everywhere(pricing, "included_tax", s.round_tax_down),
        2,
        judge="oracle",
    ),
    Mutant(
        "sells what is not sold any more",
        "an order may contain a product whose sale has ended",
        edit_code(placing._build_order, ("if products[id].discontinued", "if False")),
        judge="oracle",
    ),
    Mutant(
        "refunds full prices",
        "what comes back is worth its price without the discount",
        replace_everywhere(pricing, "discounted_value", s.forget_discount),
        2,
        first_seed=73,
        judge="oracle",
    ),
    Mutant(
        "rounds shares up",
        "the share of returned pieces in the discount is rounded up",
        replace_everywhere(pricing, "discounted_value", s.round_share_up),
        2,
        first_seed=104,
        judge="oracle",
    ),
    Mutant(
        "refunds euros",
        "every refund is in EUR",
        replace_everywhere(refunds, "build_refund", s.refund_in_euros),
        2,
        judge="oracle",
    ),
    Mutant(
        "one refund a payment",
        "a payment that has a refund gets no second one",
        patch_attribute(refund_processing, "_block_reason", s.block_second_refund),
        1,
        first_seed=151,
        judge="oracle",
    ),
    Mutant(
        "counts pieces twice",
        "best sellers and minutes have each sold piece twice",
        replace_everywhere(totals, "_sales_contributions", s.count_pieces_twice),
        2,
        judge="oracle",
    ),
    Mutant(
        "counts a minute late",
        "a sale counts for the minute after the one in which it was paid",
        replace_everywhere(totals, "_sales_contributions", s.count_for_next_minute),
        2,
        judge="oracle",
    ),
    Mutant(
        "month of the next hour",
        "a sale in the last hour of a month counts for the next month",
        replace_everywhere(totals, "season_of", s.month_of_next_hour),
        2,
        judge="oracle",
        opens_at=BEFORE_MONTH_END,
    ),
    Mutant(
        "repairs what nobody knows",
        "a repair of drift takes what is counted today for the sales of a month whose orders left the table",
        patch_attribute(total_checks, "is_final", lambda *_: False),
        10,
        judge="oracle",
    ),
    Mutant(
        "five stars",
        "a review counts with five stars in the rating",
        patch_attribute(
            totals,
            "_COUNTERS_BY_ROW",
            {**totals._COUNTERS_BY_ROW, t.REVIEW: replace(totals.COUNTERS[2], contributions=s.give_five_stars)},
        ),
        2,
        first_seed=2,
        judge="oracle",
    ),
    Mutant(
        "restocks all",
        "damaged goods that come back are for sale again",
        replace_everywhere(returns, "ReturnedGoods", s.restock_all),
        2,
        first_seed=5,
        judge="oracle",
    ),
    Mutant(
        "refunds shipping unasked",
        "each return gives the shipping back",
        replace_everywhere(returns, "return_goods", s.always_refund_shipping),
        2,
        first_seed=16,
        judge="oracle",
    ),
    Mutant(
        "cancels what was sent",
        "the state table lets a customer cancel an order that is on its way",
        s.change_transition("OrderCancelled", before=("PENDING", "PAID", "SHIPPED")),
        2,
        first_seed=16,
        judge="oracle",
    ),
    Mutant(
        "returns are no sales",
        "an order whose goods all came back does not count as sold",
        replace_everywhere(
            entities, "SOLD_STATUSES", tuple(one for one in entities.SOLD_STATUSES if one != "RETURNED")
        ),
        2,
        first_seed=5,
        judge="oracle",
    ),
    Mutant(
        "mails no delivery",
        "the rule of the bus does not send deliveries to the mailer",
        s.forget_event("order_notification", "OrderDelivered"),
        2,
        judge="oracle",
    ),
    Mutant(
        "mails another subject",
        "the mail about a shipped order says that it is delivered",
        patch_attribute(
            mail_texts,
            "NOTIFICATION_TEXTS",
            {**mail_texts.NOTIFICATION_TEXTS, "OrderShipped": mail_texts.NOTIFICATION_TEXTS["OrderDelivered"]},
        ),
        2,
        judge="oracle",
    ),
    Mutant(
        "mails whole euros",
        "mails show amounts without their cents",
        replace_everywhere(money, "format_amount", s.drop_cents),
        2,
        judge="oracle",
    ),
    Mutant(
        "shows everything",
        "each customer may read the data of all customers",
        patch_attribute(Caller, "can_see", lambda *_: True),
        2,
        first_seed=7,
        judge="oracle",
    ),
    Mutant(
        "shows a name too late",
        "an order is shown with the name of the order that was shown before",
        patch_attribute(OrderAnswer, "of", s.show_name_of_last_order),
        1,
        judge="oracle",
    ),
)
