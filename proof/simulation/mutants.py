"""Declares the mutants: bugs that the tests plant in the shop's code. The checks must detect each of them.

For each invariant, there is a bug that only this invariant detects, so no invariant is superfluous. Some bugs are in
code that the invariants use too, and only the oracle detects these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from functions.api.http import problems
from functions.api.routes.order_responses import OrderAnswer
from functions.dynamodb import writes
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
from functions.model import copies, entities, errors, money, pricing, states, totals
from functions.model import table as t
from functions.runtime import dead_letters
from functions.shop import (
    cancellation,
    credit_notes,
    customers,
    data_export,
    diagnosis,
    discounts,
    fulfilment,
    offline_payments,
    order_notifications,
    payments,
    placing,
    product_alerts,
    refund_processing,
    refunds,
    republishing,
    returns,
    reviews,
    shipments,
    started_payments,
    stock,
    stock_parts,
    unmatched_payments,
    webhook_deliveries,
    webhooks,
)
from functions.shop import erasure as forgetting
from functions.shop.shop import Caller
from ops.repair import rebuild, total_checks
from proof.mutants.edits import edit_code
from proof.simulation import mutations as s
from proof.simulation.mutations import Plant, patch_attribute, replace_everywhere, wrap_attribute
from proof.simulation.world import Judge


@dataclass(frozen=True)
class Mutant:
    """A bug that the judge must detect within `seeds` runs, from `first_seed` on, with the option `fierce`.

    `sole_invariant`: the only one that may detect it in these runs. Empty: any may, and the first run that detects it
    is the last one. `judge`: "oracle" if the bug is in code that the invariants use too; they are then switched off.
    `opens_at`: when the shop opens, in epoch seconds; None: the seed decides.
    """

    name: str
    description: str
    plant: Plant
    seeds: int = 30
    sole_invariant: str = ""
    first_seed: int = 1
    judge: Judge = "invariants"
    opens_at: float | None = None


OracleMutant = partial(Mutant, judge="oracle")
BEFORE_MONTH_END = datetime(2026, 11, 30, 21, 35, tzinfo=UTC).timestamp()
"""Customers order in three bursts, 60, 100 and 140 minutes later. The last burst is 5 minutes before December."""


def _problems_without(kind: type[Exception]) -> Mapping[type[Exception], problems.ProblemType]:
    return {one: answer for one, answer in problems.PROBLEM_TYPES.items() if one is not kind}


MUTANTS = (
    # The next bugs concern customers, their companies and the categories of products.
    Mutant(
        "keeps the address before",
        "a customer changes their address, and the claim of the old address is not deleted",
        patch_attribute(customers, "delete_if_held_by", s.keep_claim),
        2,
        "customers_add_up",
    ),
    Mutant(
        "hangs in the air",
        "a category is created although its parent category does not exist",
        s.skip_writes(t.CATEGORY, "ConditionCheck"),
        1,
        "categories_hang_together",
        first_seed=9,
    ),
    Mutant(
        "claims apart",
        "the claim of an address is written after the profile, not in the same transaction",
        s.write_separately(t.EMAIL_CLAIM),
        first_seed=17,
    ),
    Mutant(
        "stays in the company",
        "an erased customer stays in the list of their company",
        wrap_attribute(forgetting, "replace_with", s.turn_keeping_index_keys),
        first_seed=12,
    ),
    Mutant(
        "forgets names",
        "the new name of a customer is not copied to their orders",
        patch_attribute(customer_name_worker, "propagate_name", lambda *_: 0),
        1,
        "open_orders_bear_their_customers_name",
        first_seed=5,
    ),
    # The next bugs concern orders, stock and imports.
    Mutant(
        "a key is a new order",
        "the order's id does not depend on the idempotency key",
        patch_attribute(placing, "derive_order_id", lambda shop, customer_id, key: shop.new_id()),
        2,
        "no_order_is_lost",
    ),
    Mutant("goods apart", "stock is not written in its order's transaction", s.write_separately(t.STOCK)),
    Mutant(
        "goods are gone",
        "an unpaid order ends, and its goods do not return to the stock",
        patch_attribute(stock, "release", s.release_nothing),
        2,
        "stock_adds_up",
    ),
    Mutant(
        "sells what is not there",
        "an order takes stock without the condition that enough is available",
        wrap_attribute(stock, "reserve", lambda real, order, *_: map(s.drop_condition, real(order))),
        2,
        "stock_is_never_negative",
        first_seed=10,
    ),
    Mutant(
        "moves what is not there",
        "a resize of stock parts moves pieces that orders have just taken",
        wrap_attribute(stock_parts, "_move_pieces", lambda real, *of: map(s.drop_condition, real(*of))),
        first_seed=2,
    ),
    OracleMutant(
        "gives back to the first",
        "an ended order returns all its pieces to stock part 0",
        wrap_attribute(stock, "release", s.release_to_part_0),
    ),
    Mutant("never expires", "the expiry marker of an ended order is not written", s.skip_writes(t.EXPIRY_MARKER)),
    Mutant(
        "assumes nothing",
        "a shipment without a delivery report is never assumed to be delivered",
        patch_attribute(order_deadlines, "list_unconfirmed_orders", lambda *_: iter(())),
        1,
        "nothing_waits_for_ever",
        first_seed=3,
    ),
    Mutant(
        "lines apart",
        "the progress of an import is written after its lines, not in the same transaction",
        s.write_separately(t.IMPORT_PART),
        1,
        "imports_add_up",
        first_seed=67,
    ),
    # The next bugs concern discount codes, payments, credit accounts and refunds.
    Mutant(
        "codes are gone",
        "a cancelled or unpaid order does not return its redemption of the discount code",
        patch_attribute(discounts, "release", s.release_nothing),
        1,
        "discounts_add_up",
        first_seed=2,
    ),
    Mutant(
        "credit apart",
        "the ledger's entry is written after the rest, not in the same transaction",
        s.write_separately(t.ENTRY),
        1,
        "ledgers_add_up",
        first_seed=4,
    ),
    Mutant(
        "keeps what is too much",
        "money that does not count towards the order is not refunded",
        wrap_attribute(payments, "count_towards_order", s.count_without_refund),
        2,
        "money_is_kept",
    ),
    Mutant(
        "keeps for ever",
        "an event that arrived before its payment is never applied",
        patch_attribute(payments, "apply_kept_events", lambda *_: None),
        1,
        "no_event_waits_for_a_payment_that_came",
    ),
    Mutant(
        "asks anew",
        "each attempt of a refund sends another idempotency key to the payment provider",
        patch_attribute(refund_processing, "_send_to_provider", s.request_refund_with_new_key),
        1,
        "refunds_are_settled",
        first_seed=16,
    ),
    Mutant(
        "forgets what is back",
        "a refund does not raise the refunded amount of its payment",
        patch_attribute(refund_processing, "replace", s.drop_refunded_amount),
        2,
        "payments_give_back_what_they_brought",
    ),
    # The next bugs concern started payments, offline payments and assigned payments.
    OracleMutant(
        "shows what was due",
        "a payment is shown although its amount was paid in another way before it was stored",
        patch_attribute(started_payments, "_require_due", lambda *_: None),
        first_seed=34,
    ),
    OracleMutant(
        "transfers outdate nothing",
        "an offline payment does not mark the started payment as outdated",
        wrap_attribute(offline_payments, "mark_outdated", s.keep_started_payment),
        first_seed=6,
    ),
    OracleMutant(
        "leaves it open",
        "the started payment of a lapsed or cancelled order is not cancelled",
        patch_attribute(started_payments, "cancel_open_payments", lambda *_: []),
        first_seed=4,
    ),
    OracleMutant(
        "reverses nothing",
        "a reversed offline payment still counts in its order's paid amount",
        edit_code(
            offline_payments.reverse_offline_payment,
            ("paid=order.paid - (payment.amount - payment.uncounted)", "paid=order.paid"),
        ),
        first_seed=17,
    ),
    Mutant(
        "assigns a copy",
        "an assigned payment keeps its amount under the order id that the provider reported",
        edit_code(unmatched_payments.assign_payment, ("amount=0,", "amount=payment.amount,")),
        first_seed=5,
    ),
    # The next bugs concern invoices.
    Mutant(
        "leaves out a number",
        "each batch of invoices takes one number more than it uses",
        wrap_attribute(fulfilment, "take_numbers", s.leave_out_a_number),
        2,
        "invoices_have_no_gaps",
    ),
    # The next bugs concern credit notes.
    OracleMutant(
        "credits no goodwill",
        "the goodwill of staff is refunded, but not credited",
        edit_code(
            refunds.refund_order, ("count_credit(order, replace(", "(lambda _, after, _n: after)(order, replace(")
        ),
        first_seed=3,
    ),
    OracleMutant(
        "splits by rows",
        "the value of returned goods is taken off all rows of the invoice",
        edit_code(credit_notes._split_credit, ("min(values.get(id, 0), rest)", "0")),
        first_seed=2,
    ),
    OracleMutant(
        "documents too much",
        "staff have all money that left an order documented, with what was documented before",
        edit_code(
            credit_notes.document_withdrawal,
            ("count_credit(order, changed, order.undocumented)", "replace(changed, credited=order.total)"),
        ),
        first_seed=3,
    ),
    OracleMutant(
        "mails the order's total",
        "the mail about a credit note shows the total of the order",
        edit_code(mail_texts.render_notification, ("money(credit_note.total)", "money(order.total)")),
        first_seed=2,
    ),
    # The next bugs concern shipments.
    Mutant(
        "one of each",
        "a shipment is requested with only one piece of each product",
        wrap_attribute(fulfilment, "build_shipment", lambda real, order, asked: real(order, dict.fromkeys(asked, 1))),
        2,
        "parcels_hold_what_was_ordered",
    ),
    Mutant(
        "stops unasked",
        "an order is cancelled without asking the warehouse that packs it",
        wrap_attribute(cancellation, "cancel_order", s.cancel_without_asking),
        1,
        "parcels_are_sent_once",
        first_seed=10,
    ),
    Mutant(
        "sent is delivered",
        "a dispatched shipment counts as delivered",
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
        1,
        "a_copy_never_goes_back",
        first_seed=20,
    ),
    Mutant(
        "leaves copies",
        "an existing copy is never updated",
        patch_attribute(copies_reader, "put_if_newer", writes.put_if_absent),
        2,
        "snapshots_are_what_their_primaries_say",
        first_seed=2,
    ),
    Mutant(
        "forgets an event",
        "the activity log gets no entry for a shipped order",
        wrap_attribute(copies, "plan_copy_changes", s.without_log_entry(t.ACTIVITY, "OrderShipped")),
        1,
        "activity_is_kept",
        first_seed=2,
    ),
    Mutant(
        "forgets an entry",
        "the timeline gets no entry for a shipped order",
        patch_attribute(states, "append_entry", s.without_entry("OrderShipped")),
    ),
    Mutant(
        "enters the status before",
        "the timeline's entry for a shipped order has the previous status of the order",
        patch_attribute(states, "append_entry", s.with_status_before("OrderShipped")),
        2,
        "timelines_have_no_gaps",
    ),
    Mutant(
        "redrives as it was",
        "the redrive of a parked record overwrites newer copies with the record's old data",
        wrap_attribute(rebuild, "redrive_record", s.redrive_old_image),
        first_seed=5,
    ),
    Mutant(
        "replays anew",
        "a replayed change gets another id at each replay",
        wrap_attribute(republishing, "_change_to_current_status", s.replay_with_new_id),
        first_seed=9,
    ),
    Mutant(
        "replays for ever",
        "a change is replayed although the markers of its effects have expired",
        patch_attribute(republishing, "MAX_REPLAY_AGE_DAYS", 100_000),
        first_seed=4,
    ),
    # The next bugs concern the stream, the queues and the event bus.
    Mutant("from the latest on", "a mapping starts at LATEST", s.start_mappings_at("LATEST")),
    Mutant(
        "tells not all",
        "events of one type are not published",
        wrap_attribute(event_publisher, "_publish_entries", s.publish_except("PaymentCaptured")),
        2,
        "every_change_is_told",
    ),
    Mutant(
        "parks no payload",
        "a parked record contains only its id, not its data",
        wrap_attribute(dead_letters, "dead_letter_writer", s.park_ids_only),
        2,
        "poison_is_parked",
    ),
    # The next bugs concern mails about orders.
    Mutant(
        "address before",
        "a mail goes to the first address of its customer, not to the current one",
        wrap_attribute(mailing, "get_mail_context", s.send_to_first_address),
    ),
    Mutant(
        "wrong address",
        "a mail goes to the address of another customer",
        wrap_attribute(mailing, "send_mail", s.send_to_another),
        2,
        "mails_are_sent_once",
    ),
    Mutant(
        "parks refused mails",
        "a mail that SES rejects with a temporary error is parked",
        patch_attribute(mailing, "defer_message", s.park_refused_mail),
        1,
        "no_mail_is_parked_that_can_be_sent",
        first_seed=11,
    ),
    # The next bugs concern mails to the followers of a product.
    Mutant(
        "cools never",
        "followers get a mail about each event of a product, without a pause in between",
        patch_attribute(product_alerts, "CAMPAIGN_COOLDOWN_SECONDS", 0),
        1,
        "followers_told_once",
        first_seed=2,
    ),
    Mutant(
        "stock now",
        "an alert decides by the current stock whether the product was sold out before",
        patch_attribute(product_alerts, "_was_in_stock_before", s.compare_stock_now),
        1,
        "followers_told_once",
        first_seed=6,
    ),
    # The next bugs concern the S3 archive of closed orders, and the restore from the archive.
    Mutant(
        "archives no children",
        "the archived object of an order lacks the order's other items",
        wrap_attribute(archive_worker, "start_archiving", s.without_children),
        1,
        "the_archive_holds_what_ended",
        first_seed=4,
    ),
    Mutant(
        "restore that counts again",
        "a restored order is counted again in the totals",
        wrap_attribute(totals, "contribution_change_of", s.count_restored_order),
        2,
        "totals_add_up",
        first_seed=9,
    ),
    Mutant(
        "one line",
        "if several activity entries expire together, only one is archived",
        wrap_attribute(archive_worker, "archive_activity", s.archive_one_line),
        2,
        "activity_that_ended_is_archived",
    ),
    # The next bugs concern the erasure of a customer's personal data, and the product reviews of customers.
    Mutant(
        "forgets not all",
        "an erasure does not change the archive",
        patch_attribute(customer_erasure, "_rewrite_archive_without_address", lambda *_: False),
        1,
        "erased_customers_are_nowhere",
        first_seed=5,
    ),
    Mutant(
        "praise before delivery",
        "a customer may review a product that they did not buy",
        patch_attribute(reviews, "_check_bought", lambda *_: None),
        2,
        "reviews_are_by_buyers",
        first_seed=5,
    ),
    Mutant(
        "logs an address",
        "the log line of a sent mail contains the recipient's address",
        wrap_attribute(mailing, "send_mail", s.log_recipient),
        1,
        "logs_name_nobody",
    ),
    # The next bug concerns the error responses of the API.
    Mutant(
        "a key reused is a fault",
        "a reused idempotency key is answered with status 500",
        patch_attribute(problems, "PROBLEM_TYPES", _problems_without(errors.IdempotencyKeyReused)),
        1,
        "every_answer_makes_sense",
        first_seed=2,
    ),
    # The next bugs are in code that the invariants use too. The oracle must detect them.
    OracleMutant(
        "rounds discounts up",
        "a discount is rounded up instead of down",
        edit_code(
            pricing.discount_amount,
            ("goods_amount * rate // HUNDRED_PERCENT", "-(-goods_amount * rate // HUNDRED_PERCENT)"),
        ),
        first_seed=10,
    ),
    OracleMutant(
        "discounts shipping",
        "a discount also reduces the price of the shipping",
        edit_code(
            pricing.order_total,
            ("    return", "    off = priced.discount.amount if priced.discount else 0\n    return"),
            (".values())", ".values()) - off * priced.shipping // goods_total(priced.lines)"),
        ),
        first_seed=5,
    ),
    OracleMutant(
        "three for two",
        "every third piece of a product costs nothing",
        edit_code(pricing.price_rows, ("* line.quantity", "* (line.quantity - line.quantity // 3)")),
    ),
    OracleMutant(
        "rounds tax down",
        "a tax is rounded down instead of half up",
        edit_code(pricing.split_tax, ("2 * amount * rate + whole", "2 * amount * rate")),
        first_seed=3,
    ),
    OracleMutant(
        "sells what is not sold any more",
        "an order may contain a discontinued product",
        edit_code(placing._build_order, ("if products[id].discontinued", "if False")),
        first_seed=2,
    ),
    OracleMutant(
        "refunds full prices",
        "a return is refunded at the full price, without the order's discount",
        edit_code(
            pricing.paid_value,
            ("rows[id].gross", "order.lines[id].price * order.lines[id].quantity"),
        ),
        first_seed=6,
    ),
    OracleMutant(
        "rounds shares up",
        "when pieces are returned, their share of the discount is rounded up",
        edit_code(pricing.paid_value, ("sum(rows", "-sum(-rows")),
        first_seed=7,
    ),
    OracleMutant(
        "refunds euros",
        "every refund is in EUR",
        edit_code(refunds.build_refund, ("currency=payment.currency", 'currency="EUR"')),
    ),
    OracleMutant(
        "one refund a payment",
        "a payment that has a refund gets no second one",
        patch_attribute(refund_processing, "_block_reason", s.block_second_refund),
        first_seed=2,
    ),
    OracleMutant(
        "counts pieces twice",
        "the totals of products and of minutes count each sold piece twice",
        edit_code(totals._sales_contributions, ("pieces=sum(", "pieces=2 * sum("), ("pieces=sold", "pieces=2 * sold")),
    ),
    OracleMutant(
        "counts a minute late",
        "a sale counts for the minute after the one in which it was paid",
        edit_code(
            totals._sales_contributions,
            ("minute=minute", "minute=to_instant(datetime.fromisoformat(minute) + timedelta(minutes=1))"),
        ),
    ),
    OracleMutant(
        "month of the next hour",
        "a sale in the last hour of a month counts for the next month",
        edit_code(totals.season_of, ("at[:7]", "to_instant(datetime.fromisoformat(at) + timedelta(hours=1))[:7]")),
        opens_at=BEFORE_MONTH_END,
    ),
    OracleMutant(
        "repairs what nobody knows",
        "a repair of drift recounts the sales of a final month, whose orders are no longer in the table",
        patch_attribute(total_checks, "is_final", lambda *_: False),
    ),
    OracleMutant(
        "five stars",
        "every review counts as five stars in the rating",
        edit_code(totals.review_contributions, ("stars=review.stars", "stars=5")),
        first_seed=3,
    ),
    OracleMutant(
        "restocks all",
        "damaged returned goods are added to the stock",
        edit_code(
            returns.ReturnedGoods.__post_init__,
            ("if self.quantity < 1:", 'object.__setattr__(self, "restock", True)\n        if self.quantity < 1:'),
        ),
        first_seed=6,
    ),
    OracleMutant(
        "refunds shipping unasked",
        "each return also refunds the shipping",
        edit_code(returns.return_goods, ("    if not lines:", "    refund_shipping = True\n    if not lines:")),
        first_seed=2,
    ),
    OracleMutant(
        "cancels what was sent",
        "the state table allows a customer to cancel a shipped order",
        s.change_transition("OrderCancelled", before=("PENDING", "PAID", "SHIPPED")),
        first_seed=22,
    ),
    OracleMutant(
        "returns are no sales",
        "a completely returned order does not count as sold",
        replace_everywhere(
            entities, "SOLD_STATUSES", tuple(one for one in entities.SOLD_STATUSES if one != "RETURNED")
        ),
        first_seed=6,
    ),
    OracleMutant(
        "mails no delivery",
        "the EventBridge rule does not send OrderDelivered to the mail worker",
        s.lose_event("order_notification", "OrderDelivered"),
    ),
    OracleMutant(
        "mails another subject",
        "the mail about a shipped order has the text for a delivered order",
        edit_code(
            mail_texts.render_notification,
            (
                "text = language.text\n",
                'text = lambda key, **of: language.text(key.replace("OrderShipped", "OrderDelivered"), **of)\n',
            ),
        ),
        first_seed=2,
    ),
    OracleMutant(
        "mails whole euros",
        "mails show amounts without their cents",
        edit_code(money.format_amount, ("    digits = ", "    amount -= amount % 100\n    digits = ")),
    ),
    OracleMutant(
        "shows everything",
        "each customer may read the data of all customers",
        patch_attribute(Caller, "can_see", lambda *_: True),
        first_seed=7,
    ),
    OracleMutant(
        "shows a name too late",
        "the API shows an order with the customer's name of the order that it showed before",
        wrap_attribute(OrderAnswer, "of", s.show_name_of_last_order),
    ),
    OracleMutant(
        "exports one order",
        "the export of a customer's data ends after the first order",
        edit_code(
            data_export._read_listed,
            ("Position(at.step, listed.after) if listed.after else _next_step(at.step)", "_next_step(at.step)"),
        ),
        first_seed=7,
    ),
    OracleMutant(
        "exports one page of an order",
        "the export of a customer's data leaves out the items of an order after the first page",
        edit_code(
            data_export._read_listed, ("replace(at, after=page.after) if page.after else following", "following")
        ),
        first_seed=7,
    ),
    OracleMutant(
        "finds causes in finished refunds",
        "the diagnosis of an order names each refund that succeeded as failed",
        edit_code(diagnosis._refunds_in, ("one.status == status", 'one.status in (status, "SUCCEEDED")')),
        first_seed=11,
    ),
    OracleMutant(
        "finds sent mails missing",
        "the diagnosis of an order names mails that were sent as missing",
        edit_code(diagnosis._unsent_mails, ("(one.event, one.at) not in claimed", "claimed")),
        first_seed=11,
    ),
    OracleMutant(
        "expires in milliseconds",
        "the expiry time of a notification is in milliseconds, so the notification never expires",
        edit_code(
            order_notifications.claim_notification,
            ("ttl=int((now + timedelta(days=NOTIFICATION_DAYS)).timestamp())", "ttl=int(now.timestamp() * 1000)"),
        ),
    ),
    # The next bugs concern webhooks.
    OracleMutant(
        "two send at once",
        "an invocation sends the events of an object although another one holds the lease",
        edit_code(
            webhook_deliveries._take_lease,
            ("if cursor.lease and cursor.leased_until and cursor.leased_until > now:", "if False:"),
        ),
        first_seed=65,
    ),
    OracleMutant(
        "takes a failure for success",
        "the cursor moves although the endpoint has not accepted the event",
        edit_code(webhook_deliveries._Sending._send_page, ("if not answer.is_success:", "if answer.status == 400:")),
        first_seed=18,
    ),
    OracleMutant(
        "skips what comes late",
        "an event that comes after later ones does not move the cursor back",
        edit_code(webhook_deliveries._take_lease, ("if cursor.position >= place.position and", "if False and")),
        first_seed=922,
    ),
    OracleMutant(
        "writes the event anew",
        "an event that is sent again has other bytes",
        edit_code(
            webhook_deliveries._Sending._attempt,
            ("event.event_id, event.body,", "event.event_id, event.body + ' ' * cursor.attempts,"),
        ),
        first_seed=11,
    ),
    OracleMutant(
        "forgets the old secret",
        "after a rotation, events are signed only with the new secret",
        edit_code(webhooks.valid_secrets, ("if webhook.old_secret_until and", "if False and")),
        first_seed=97,
    ),
    OracleMutant(
        "retries nothing",
        "an event that failed is not in the index of the retries",
        edit_code(
            webhook_deliveries._Sending._fail,
            ('"retry_at": to_instant(now + timedelta(minutes=wait)),', '"retry_at": None,'),
        ),
        first_seed=18,
    ),
    OracleMutant(
        "sends to the paused",
        "events are sent to a paused webhook",
        edit_code(webhook_deliveries._waits_until, ('if webhook.status == "PAUSED":', "if False:")),
        first_seed=11,
    ),
)
