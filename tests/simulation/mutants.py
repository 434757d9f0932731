"""Faults planted in the product: each must be seen by the invariants within its number of seeds, and each invariant is
the only one that sees some fault: without it that one would go into the product unseen."""

from collections.abc import Mapping
from dataclasses import dataclass

from functions import archive, copies, erasure, lapse, names, objects, relay, wiring
from functions.api import problems
from functions.dynamodb import writes
from functions.dynamodb.streams import Batch
from functions.model import changes, counters, derived, errors
from functions.model import table as t
from functions.notifications import handler as mailing
from functions.queues import Messages
from functions.shop import archive as closing
from functions.shop import (
    customers,
    discounts,
    disputes,
    ending,
    invoices,
    notices,
    payments,
    placing,
    returns,
    reviews,
    settling,
    shipments,
    stock,
)
from functions.shop import erasure as forgetting
from functions.shop import names as naming
from ops import recover, restore
from tests.simulation import sabotage as s
from tests.simulation.sabotage import Plant, instead


@dataclass(frozen=True)
class Mutant:
    """`does`: what is wrong with it. `seeds`: within how many fierce ones it must be caught, `since` the first.

    `only`: the one invariant that sees it in these seeds; without it, all the others would have let it pass.
    """

    name: str
    does: str
    plant: Plant
    seeds: int = 30
    only: str = ""
    since: int = 1


def _but(kind: type[Exception]) -> Mapping[type[Exception], problems.Kind]:
    return {one: answer for one, answer in problems.PROBLEMS.items() if one is not kind}


# fmt: off
MUTANTS = (
    # customers
    Mutant("keeps the address before", "a claim stays where a customer has another address",
           instead(customers, "delete_held", s.keep_what_they_hold), 2, "customers_add_up"),
    Mutant("hangs in the air", "a category is made where there is none to put it into",
           s.unchecked(t.CATEGORY), 3, "categories_hang_together", since=8),
    Mutant("claims apart", "an address is claimed when the profile has it", s.in_two(t.EMAIL_CLAIM), since=11),
    Mutant("stays in the company", "who was forgotten is in their company's list",
           instead(forgetting, "turn", s.leaving_index_keys), since=12),
    Mutant("an order's first name", "who orders and has another name just then has the one before on the order",
           instead(naming, "bring_up", lambda *_: None), 3, "open_orders_bear_their_customers_name", since=20),
    Mutant("forgets names", "a new name reaches no order",
           instead(names, "spread", lambda *_: 0), 1, "open_orders_bear_their_customers_name", since=11),
    # orders and stock
    Mutant("a key is a new order", "the order's id is not made of the key",
           instead(placing, "order_id_of", lambda shop, customer_id, key: shop.new_id()), 2, "no_order_is_lost"),
    Mutant("goods apart", "stock is written when the rest is done", s.in_two(t.STOCK)),
    Mutant("goods are gone", "an order that ends unpaid keeps its goods",
           instead(stock, "release", s.release_nothing), 2, "stock_adds_up"),
    Mutant("sells what is not there", "stock is taken without a look",
           instead(stock, "take", s.taken_without_look), 2, "stock_is_never_negative", since=10),
    Mutant("never expires", "an order that ends has no end", s.never(t.EXPIRY)),
    Mutant("assumes nothing", "what nobody speaks of is never delivered",
           instead(lapse, "unconfirmed", lambda *_: iter(())), 3, "nothing_waits_for_ever"),
    Mutant("lines apart", "a line of an import is counted when it has been written",
           s.in_two(t.IMPORT_PART), 3, "imports_add_up", since=10),
    # discounts and money
    Mutant("codes are gone", "an order that ends early keeps its redemption",
           instead(discounts, "released", s.release_nothing), 3, "discounts_add_up"),
    Mutant("codes apart", "a redemption is written when the rest is done", s.in_two(t.REDEMPTIONS)),
    Mutant("credit apart", "the ledger's entry is written when the rest is done",
           s.in_two(t.ENTRY), 2, "ledgers_add_up", since=3),
    Mutant("balance apart", "an account's balance is written when the rest is done",
           s.in_two(t.ACCOUNT), since=8),
    Mutant("a payment an event", "each event of a payment is another payment",
           instead(payments, "record_payment", s.payment_of_the_event), since=2),
    Mutant("keeps what is too much", "money that is not for the order is not given back",
           instead(payments, "_counted", s.counted_alone), 2, "money_is_kept"),
    Mutant("keeps what was paid", "an order that ends early keeps it", instead(ending, "given_back", s.nothing_back)),
    Mutant("keeps what it drops", "an order that is cut short gives nothing back",
           instead(ending, "freed", lambda *_: 0), 5, since=110),
    Mutant("loses nothing", "a dispute that is lost takes nothing from its order",
           instead(disputes, "_less", s.less_by_nothing)),
    Mutant("owes nothing", "what a bank disputes is not owed when its order ends",
           s.together(instead(ending, "given_back", s.owing_nothing), instead(returns, "given_back", s.owing_nothing)),
           5, since=130),
    Mutant("asks anew", "a refund has another key each time",
           instead(settling, "_asked", s.asked_anew), 3, "refunds_are_settled", since=16),
    Mutant("forgets what is back", "a payment does not know what was given back of it",
           instead(settling, "replace", s.forget_what_is_back), 2, "payments_give_back_what_they_brought"),
    Mutant("refunds apart", "a refund is written when the rest is done", s.in_two(t.REFUND)),
    # invoices
    Mutant("forgets the Effect", "the invoice's Effect is under another id each time",
           instead(invoices, "put", s.other_effect), 2, "invoices_have_no_gaps", since=5),
    Mutant("short Effects", "an Effect lives shorter than the queues", instead(invoices, "EFFECT_DAYS", 0), since=4),
    Mutant("numbers apart", "an invoice's number counts as taken when the invoice is written",
           s.in_two(t.INVOICE_SERIES), since=4),
    # parcels
    Mutant("ships apart", "a shipment is written when its order says so", s.in_two(t.SHIPMENT)),
    Mutant("sends it twice", "what is left of a shipment is all of it", instead(shipments, "_left", s.all_is_left)),
    Mutant("one of each", "a shipment is asked for with one piece of each product",
           instead(shipments, "_requested", s.one_of_each), 2, "parcels_hold_what_was_ordered"),
    Mutant("stops unasked", "an order is cancelled under the warehouse's hands",
           instead(ending, "cancel_order", s.stop_unasked), 2, "parcels_are_sent_once", since=16),
    Mutant("sent is delivered", "a shipment that is sent counts as delivered",
           s.together(instead(shipments, "moved_shipment", s.sent_is_delivered),
                      instead(shipments, "replace", s.counted_as_delivered)), 2, "states_move_as_allowed"),
    # copies
    Mutant("no version guard", "an older copy overwrites a newer one",
           instead(copies, "put_newer", s.unguarded(writes.put_newer)), 2, "a_copy_never_goes_back", since=5),
    Mutant("leaves copies", "a copy that is there stays as it was",
           instead(copies, "put_newer", s.put_once), 2, "snapshots_are_what_their_primaries_say"),
    Mutant("forgets an event", "a log has no entry for a parcel that was sent",
           instead(derived, "following", s.without(t.TIMELINE, "OrderShipped")), 2, "logs_have_no_gaps"),
    Mutant("activity anew", "an entry of activity has another id each time",
           instead(copies, "put", s.fresh_activity), 2, "activity_is_kept"),
    Mutant("counts again", "what is counted already is counted once more when it comes again",
           instead(counters, "counted", s.counted_anew), 2, "totals_add_up"),
    Mutant("counts apart", "that an item is counted is written when the rest is done",
           s.in_two(t.COUNTED), 2, "totals_add_up", since=3),
    Mutant("redrives as it was", "an old image is put into the copies again",
           instead(recover, "redrive", s.put_as_it_was), since=5),
    Mutant("replays anew", "what is replayed has another id each time",
           instead(recover, "_reached", s.reached_anew), since=9),
    Mutant("replays for ever", "what is replayed may be older than its effects are remembered",
           instead(recover, "REPLAYED_DAYS", 100_000), since=4),
    # streams, queues, events
    Mutant("from the latest on", "a mapping begins with what is written after it", s.mappings_begin("LATEST")),
    Mutant("ids of deliveries", "a change's id is another each time it comes",
           instead(changes, "id_of", s.id_of_delivery)),
    Mutant("swallows failures", "a record that failed counts as done", instead(Batch, "apply", s.swallow)),
    Mutant("goes on", "later records of an item that failed are not held back",
           instead(Batch, "holds", lambda *_: False), since=14),
    Mutant("tells not all", "events of one type are not published",
           instead(relay, "_publish", s.publish_but("PaymentCaptured")), 2, "every_change_is_told"),
    Mutant("ignores refused events", "PutEvents answered 200, so all is well",
           instead(relay, "_publish", s.publish_unseen)),
    Mutant("gives up what may heal", "an event that is refused for now is parked for good",
           instead(relay, "NEVER_TAKEN", relay.NEVER_TAKEN | {"InternalFailure", "ThrottlingException"}), since=6),
    Mutant("messages never fail", "a message that failed counts as done",
           instead(Messages, "response", s.nothing_failed)),
    Mutant("parks no payload", "what is put aside is its id alone",
           instead(wiring, "parking", s.park_ids), 2, "poison_is_parked"),
    # mails
    Mutant("claims nothing", "a mail is sent by whoever comes", instead(mailing, "claim", s.claim_nothing)),
    Mutant("address before", "a mail goes to the first address that its customer had",
           instead(mailing, "letter", s.send_to_the_address_before)),
    Mutant("wrong address", "a mail goes to another's address",
           instead(mailing, "send", s.send_to_another), 2, "mails_are_sent_once"),
    # followers
    Mutant("first page only", "of the followers of a product only the first few are told",
           instead(notices, "Page", s.first_page), 2, "followers_told_once", since=4),
    Mutant("cools never", "every event of a product is told",
           instead(notices, "CAMPAIGN_COOLDOWN_SECONDS", 0), 2, "followers_told_once", since=8),
    # the archive
    Mutant("archives without its log", "an order is archived before its log is complete",
           instead(closing, "_unlogged", lambda *_: [])),
    Mutant("archives no children", "an order's object holds the order alone",
           instead(archive, "close", s.without_children), 2, "the_archive_holds_what_ended"),
    Mutant("deletes first", "what is archived is deleted before the object is there",
           instead(archive, "archive_order", s.delete_first)),
    Mutant("overwrites", "an object takes the place of one that is there", instead(objects, "put_once", s.put_over)),
    Mutant("restore that counts again", "what comes back from the archive counts as if it were new",
           s.together(instead(changes, "is_back", lambda _: False), instead(counters, "counting", s.counted_when_back)),
           3, "totals_add_up"),
    Mutant("restores as if new", "what comes back from the archive does not say so",
           instead(restore, "RESTORED", "restored_once")),
    Mutant("one line", "of some activity that ends together one entry is archived",
           instead(archive, "archive_activity", s.archive_one_line), 2, "activity_that_ended_is_archived"),
    # who was forgotten
    Mutant("forgets not all", "an erasure leaves what is in the archive",
           instead(erasure, "_rewrite", lambda *_: None), 3, "who_was_forgotten_is_nowhere"),
    Mutant("words stay", "what a customer wrote is not deleted",
           instead(erasure, "without_traces", lambda *_: False), 2, "who_was_forgotten_is_nowhere", since=11),
    Mutant("praise before delivery", "who says something of a product need not have it",
           instead(reviews, "_must_have", lambda *_: None), 2, "reviews_are_by_buyers", since=5),
    Mutant("forgets not what failed", "an erasure leaves what is in the failure store",
           instead(erasure, "clean_failures", lambda *_: None)),
    # the API
    Mutant("a key reused is a fault", "an answer that was meant is a 500",
           instead(problems, "PROBLEMS", _but(errors.KeyReused)), 4, "every_answer_makes_sense"),
)
# fmt: on
