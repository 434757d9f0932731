"""One sample item of every type. `PERSONAL`: the personal data in them, which no key and no event may contain."""

from dataclasses import MISSING, fields, replace
from datetime import timedelta
from typing import Any, TypeVar

from functions.dynamodb.keys import Instant, Row, to_instant
from functions.model import entities as e
from functions.model import table as t
from proof.support.places import KeptByHand
from proof.support.tapped_client import START

PERSONAL = ("Ann Ash", "ann@example.com", "1 Elm Row", "1010", "Wien")
HOME_ADDRESS = e.Address(name="Ann Ash", street="1 Elm Row", postcode="1010", city="Wien", country="AT")
LINES = {"mug": e.Line(name="Mug", price=1250, quantity=2), "pot": e.Line(name="Pot", price=990, quantity=1)}
TTL = 2**33
T = TypeVar("T")


def moment(minutes: float = 0) -> Instant:
    return to_instant(START + timedelta(minutes=minutes))


AT = moment()


COMMON: dict[str, Any] = {
    "account_id": "a1",
    "at": AT,
    "code": "SPRING",
    "company_id": "acme",
    "created_at": AT,
    "currency": "EUR",
    "customer_id": "ann",
    "email_hash": "h1",
    "event_id": "c1",
    "event_name": "OrderPaid",
    "import_id": "i1",
    "object_id": "ORDER:o1/ORDER",
    "order_id": "o1",
    "part": 0,
    "payment_id": "pi_1",
    "placed_at": AT,
    "product_id": "mug",
    "ttl": TTL,
    "updated_at": AT,
    "webhook_id": "w1",
}
"""The values of the fields that many types need."""


def _item(entity: type[T], **given: Any) -> T:
    """Return an item of this type. A field without a default has its value in COMMON, if it is not given."""
    every = fields(entity)  # type: ignore[arg-type]  # mypy does not know that each entity is a dataclass
    needed = [field.name for field in every if field.default is MISSING and field.default_factory is MISSING]
    return entity(**{name: COMMON[name] for name in needed if name not in given} | given)


def order(**changed: Any) -> e.Order:
    values = {"status": "PENDING", "total": 3490, "lines": LINES, "address": HOME_ADDRESS, "fingerprint": "1:f"}
    return _item(e.Order, **values | {"customer_name": "Ann Ash", "customer_version": 1} | changed)


def archived_order(**changed: Any) -> e.ArchivedOrder:
    values = {"status": "DELIVERED", "total": 3490, "fingerprint": "1:f", "version": 8}
    return _item(e.ArchivedOrder, **values | {"object_key": "orders/o1/7.json", "sha256": "00"} | changed)


def payment(**changed: Any) -> e.Payment:
    return _item(e.Payment, **{"status": "CAPTURED", "amount": 3490} | changed)


def refund(**changed: Any) -> e.Refund:
    values = {"refund_id": "pi_1-1", "status": "REQUESTED", "amount": 1250, "why": "RETURNED", "customer_id": "ann"}
    return _item(e.Refund, **values | changed)


def shipment(**changed: Any) -> e.Shipment:
    values = {"shipment_id": "o1-1", "status": "REQUESTED", "quantities": {"mug": 2, "pot": 1}}
    return _item(e.Shipment, **values | changed)


_SAMPLES: dict[Row[Any], Any] = {
    t.CUSTOMER: _item(
        e.Customer,
        name="Ann Ash",
        email="ann@example.com",
        company_id="acme",
    ),
    t.ERASED_CUSTOMER: _item(e.ErasedCustomer, status="ERASING", erased_at=AT, version=4),
    t.SETTINGS: _item(e.Settings, name="notifications", choices={"email": True}, chosen_at={"email": AT}),
    t.EMAIL_CLAIM: _item(e.EmailClaim),
    t.WRITE_LIMIT: _item(e.WriteLimit, used_until_ms=1795253400000),
    t.COMPANY: _item(e.Company, name="Acme & Daughters"),
    t.PRODUCT: _item(e.Product, name="Mug", price=1250, category="/kitchen/"),
    t.CATEGORY: _item(e.Category, catalog="main", path="/kitchen/mugs/", name="Mugs"),
    t.STOCK: _item(e.Stock, part=7, available=5, received=9, moved=3, added_at=AT),
    t.LIST_EXPORT: _item(
        e.ListExport,
        export_id="x1",
        list="orders",
        since=AT,
        until=moment(9),
        status="RUNNING",
        rows=3,
        part_hashes=("0123456789abcdef",),
        position=f"{AT}#o1",
    ),
    t.IMPORT: _item(e.Import, count=3, parts=1),
    t.IMPORT_PART: _item(
        e.ImportPart,
        status="DONE",
        count=2,
        rejected=(e.Rejected(line=2, field="price", why="is required"),),
        done=2,
        written=1,
        unchanged=1,
        retried=1,
    ),
    t.IMPORT_LINES: _item(e.ImportLines, ndjson=b"\x1f\x8b"),
    t.REVIEW: _item(e.Review, stars=5, text="Keeps warm.", written_at=AT),
    t.DELETED_REVIEW: _item(e.DeletedReview, version=2),
    t.FOLLOW: _item(e.Follow),
    t.DISCOUNT: _item(e.Discount, rate=2000, valid_from=AT, limit=50, parts=4, minimum=1000, currency="EUR"),
    t.TAX_TABLE: _item(
        e.TaxTable,
        rates=(e.TaxRate(destination="AT", tax_class="standard", valid_from="2016-01-01", rate=2000),),
        reverse_charge_in=("DE",),
    ),
    t.SHIPPING_TABLE: _item(
        e.ShippingTable,
        methods=(
            e.ShippingMethod(
                id="standard",
                name="Parcel",
                rates=(e.ShippingRate(destination="AT", currency="EUR", minimum=0, price=490),),
                days=e.DeliveryDays(min=2, max=4),
                free_from={"EUR": 5000},
            ),
        ),
    ),
    t.SELLER: _item(
        e.Seller,
        address=e.Address(name="Elm & Sons", street="2 Elm Row", postcode="1010", city="Wien", country="AT"),
        tax_ids=("ATU12345675",),
        bank="AT61 1904 3002 3457 3201",
    ),
    t.REDEMPTION_POOL: _item(e.RedemptionPool, part=3, left=12),
    t.ORDER: order(),
    t.ARCHIVED_ORDER: archived_order(),
    t.EXPIRY_MARKER: _item(e.ExpiryMarker),
    t.PAYMENT: payment(),
    t.STARTED_PAYMENT: _item(e.StartedPayment, amount=2500),
    t.PAYMENT_CLAIM: _item(e.PaymentClaim, order_id="o1"),
    t.KEPT_EVENT: _item(e.KeptEvent, object_id="dp_1", kind="DISPUTE", status="OPEN", amount=1250),
    t.REFUND: refund(),
    t.RETURN: _item(e.Return, return_id="ret_1", quantities={"mug": 1}, restocked={"mug": 1}, amount=1250, shipping=0),
    t.SHIPMENT: shipment(carrier="dhl", tracking_number="42"),
    t.INVOICE: _item(
        e.Invoice,
        invoice_id="2026-00000001",
        name="Ann Ash",
        address=HOME_ADDRESS,
        issued_at=AT,
        total=3490,
        lines=LINES,
        payments=(e.Paid(payment_id="pi_1", amount=3490),),
        taxes=(e.TaxLine(rate=2000, net=2908, tax=582),),
    ),
    t.INVOICE_SERIES: _item(e.InvoiceSeries, series="2026", last=1),
    t.ACCOUNT: _item(e.Account, kind="STORE_CREDIT", balance=1250, customer_id="ann", version=42),
    t.ENTRY: _item(e.Entry, version=42, reason="REFUNDED", amount=1250, balance=1250, order_id="o1"),
    t.COMMAND: _item(
        e.Command, caller="ann", key="k1", command="receive_stock", fingerprint="1:f", result="{}", ttl=TTL
    ),
    t.REACTION_PROGRESS: _item(e.ReactionProgress, effect_id="c1", reaction="issue_invoice", result="2026-00000001"),
    t.NOTIFICATION: _item(
        e.Notification,
        order_id="o1",
        effect_id="c1",
        event="OrderPlaced",
        status="SENT",
        claim="x",
        claimed_until=TTL,
        message_id="m1",
    ),
    t.CAMPAIGN: _item(
        e.Campaign,
        event="PriceDropped",
        event_id="c1",
        event_at=AT,
        status="SENDING",
        began_at=AT,
        cooldown_until=TTL,
        after="FOLLOWED_BY#ann",
    ),
    t.ORDER_SUMMARY: _item(
        e.OrderSummary,
        status="PENDING",
        total=3490,
        version=1,
        items=3,
        lines={"mug": e.PurchasedLine(name="Mug", quantity=2, price=1250)},
    ),
    t.SALE: _item(e.Sale, name="Mug", quantity=2, price=1250, version=2),
    t.FEED_ENTRY: _item(e.FeedEntry, list="PAYMENTS", id="pi_1", version=1),
    t.ORDER_NUMBER: _item(
        e.OrderNumber,
        version=1,
        company_id="acme",
        phone_hash="p1",
    ),
    t.EARLIER_TIMELINE: _item(
        e.EarlierTimeline, first_version=1, entries={"1": e.TimelineEntry(at=AT, event="OrderPlaced", status="PENDING")}
    ),
    t.ACTIVITY: _item(e.Activity, change_id="c1", event="OrderPlaced", version=1),
    t.AUDIT_ENTRY: _item(
        e.AuditEntry,
        item="PRODUCT:mug",
        sort_key="PRODUCT",
        change_id="c1",
        by="staff:sue",
        command="PATCH /products/{product_id}",
        reason="new list",
        values_before={"price": "1250"},
        values_after={"price": "1390"},
    ),
    t.RATING: _item(e.Rating, reviews=2, stars=9),
    t.BEST_SELLER: _item(e.BestSeller, season=AT[:7], pieces=3),
    t.SALES_MINUTE: _item(e.SalesMinute, shard="0", minute=AT, orders=1, pieces=3, revenue=3490),
    t.CONTRIBUTION: _item(
        e.Contribution,
        source="o1",
        source_type="Order",
        as_of=f"{AT}#0000000002",
        amounts={"PRODUCT#mug / SEASON#2026-11": {"pieces": 2}},
        ttl=TTL,
    ),
    t.WEBHOOK: _item(
        e.Webhook,
        url="https://hooks.example.com/orders",
        event_names=("OrderPaid",),
        where={"currency": "EUR"},
        status="ACTIVE",
        active_from=AT,
        resumed_at=AT,
        secret_number=2,
        old_secret_until=moment(1),
        failures=1,
        replay=e.Replay(since=AT, event_names=("OrderPaid",), object_id="ORDER:o1/ORDER"),
    ),
    t.OUTBOX_EVENT: _item(e.OutboxEvent, position=f"{AT}/0000000002", body='{"type":"OrderPaid"}'),
    t.WEBHOOK_CURSOR: _item(
        e.WebhookCursor,
        position=f"{AT}/0000000001",
        since=AT,
        retry_at=moment(1),
        failing_since=AT,
        attempts=1,
        sent_at=AT,
    ),
    t.DELIVERY: _item(e.Delivery, attempt=1, http_status=503, error=None, ms=120),
    t.SWEEP: _item(
        e.Sweep,
        tool="migrate",
        name="0001",
        task="up",
        status="RUNNING",
        by="operator@desk",
        held_until=moment(1),
        started_at=AT,
        segments=(e.SweepSegment(pk="PRODUCT#mug", sk="PRODUCT"), e.SweepSegment(), e.SweepSegment(done=True)),
        read=500,
        changed=2,
        passed_over=1,
        unreadable={"PRODUCT#pot / PRODUCT": "Product: KeyError('name')"},
        waiting=("ORDER#o1 / ORDER",),
    ),
}
SAMPLES: dict[Row[Any], Any] = KeptByHand(_SAMPLES, what="sample", path="proof/support/samples.py", name="_SAMPLES")
GUEST: e.Customer = replace(
    _SAMPLES[t.CUSTOMER],
    customer_id="guest-1",
    company_id=None,
    order_id="o1",
    link=1,
)
"""A guest, who is a customer with one order and without an account."""
