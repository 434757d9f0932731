"""One sample item of every type.

`PERSONAL`: the personal data in these items. No key and no event may contain this data.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.dynamodb.keys import Instant, Row, to_instant
from functions.model import entities as e
from functions.model import table as t
from proof.support.places import KeptByHand
from proof.support.tapped_client import START

PERSONAL = ("Ann Ash", "ann@example.com", "1 Elm Row", "1010", "Wien")
HOME_ADDRESS = e.Address(name="Ann Ash", street="1 Elm Row", postcode="1010", city="Wien", country="AT")
LINES = {"mug": e.Line(name="Mug", price=1250, quantity=2), "pot": e.Line(name="Pot", price=990, quantity=1)}
TTL = 2**33


def moment(minutes: float = 0) -> Instant:
    return to_instant(START + timedelta(minutes=minutes))


AT = moment()


def order(**changed: Any) -> e.Order:
    values: dict[str, Any] = {
        "order_id": "o1",
        "customer_id": "ann",
        "status": "PENDING",
        "placed_at": AT,
        "updated_at": AT,
        "currency": "EUR",
        "total": 3490,
        "lines": LINES,
        "address": HOME_ADDRESS,
        "fingerprint": "1:f",
        "customer_name": "Ann Ash",
        "customer_version": 1,
    }
    return e.Order(**values | changed)


def archived_order(**changed: Any) -> e.ArchivedOrder:
    values: dict[str, Any] = {
        "order_id": "o1",
        "customer_id": "ann",
        "status": "DELIVERED",
        "placed_at": AT,
        "updated_at": AT,
        "currency": "EUR",
        "total": 3490,
        "fingerprint": "1:f",
        "object_key": "orders/o1/7.json",
        "sha256": "00",
        "version": 8,
    }
    return e.ArchivedOrder(**values | changed)


def payment(**changed: Any) -> e.Payment:
    values: dict[str, Any] = {"status": "CAPTURED", "amount": 3490, "currency": "EUR", "updated_at": AT}
    return e.Payment(order_id="o1", payment_id="pi_1", created_at=AT, **values | changed)


def refund(**changed: Any) -> e.Refund:
    values: dict[str, Any] = {
        "payment_id": "pi_1",
        "status": "REQUESTED",
        "amount": 1250,
        "currency": "EUR",
        "why": "RETURNED",
        "updated_at": AT,
        "customer_id": "ann",
    }
    return e.Refund(order_id="o1", refund_id="pi_1-1", created_at=AT, **values | changed)


def shipment(**changed: Any) -> e.Shipment:
    values: dict[str, Any] = {"status": "REQUESTED", "quantities": {"mug": 2, "pot": 1}, "updated_at": AT}
    return e.Shipment(order_id="o1", shipment_id="o1-1", customer_id="ann", created_at=AT, **values | changed)


_SAMPLES: dict[Row[Any], Any] = {
    t.CUSTOMER: e.Customer(
        customer_id="ann",
        name="Ann Ash",
        email="ann@example.com",
        email_hash="h1",
        created_at=AT,
        updated_at=AT,
        company_id="acme",
    ),
    t.ERASED_CUSTOMER: e.ErasedCustomer(
        customer_id="ann", status="ERASING", erased_at=AT, created_at=AT, updated_at=AT, version=4
    ),
    t.SETTINGS: e.Settings(
        customer_id="ann",
        name="notifications",
        choices={"email": True},
        chosen_at={"email": AT},
        created_at=AT,
        updated_at=AT,
    ),
    t.EMAIL_CLAIM: e.EmailClaim(email_hash="h1", customer_id="ann", created_at=AT),
    t.WRITE_LIMIT: e.WriteLimit(customer_id="ann", used_until_ms=1795253400000, ttl=TTL),
    t.COMPANY: e.Company(company_id="acme", name="Acme & Daughters", created_at=AT, updated_at=AT),
    t.PRODUCT: e.Product(
        product_id="mug", name="Mug", price=1250, currency="EUR", category="/kitchen/", created_at=AT, updated_at=AT
    ),
    t.CATEGORY: e.Category(catalog="main", path="/kitchen/mugs/", name="Mugs", created_at=AT, updated_at=AT),
    t.STOCK: e.Stock(product_id="mug", part=7, available=5, received=9, moved=3, created_at=AT),
    t.LIST_EXPORT: e.ListExport(
        export_id="x1",
        list="orders",
        since=AT,
        until=moment(9),
        status="RUNNING",
        created_at=AT,
        updated_at=AT,
        ttl=TTL,
        rows=3,
        part_hashes=("0123456789abcdef",),
        position=f"{AT}#o1",
    ),
    t.IMPORT: e.Import(import_id="i1", count=3, parts=1, created_at=AT, ttl=TTL),
    t.IMPORT_PART: e.ImportPart(
        import_id="i1",
        part=0,
        status="DONE",
        count=2,
        rejected=(e.Rejected(line=2, field="price", why="is required"),),
        done=2,
        written=1,
        unchanged=1,
        retried=1,
        created_at=AT,
        updated_at=AT,
        ttl=TTL,
    ),
    t.IMPORT_LINES: e.ImportLines(import_id="i1", part=0, ndjson=b"\x1f\x8b", created_at=AT, ttl=TTL),
    t.REVIEW: e.Review(
        product_id="mug",
        customer_id="ann",
        order_id="o1",
        stars=5,
        text="Keeps warm.",
        written_at=AT,
        created_at=AT,
        updated_at=AT,
    ),
    t.DELETED_REVIEW: e.DeletedReview(product_id="mug", customer_id="ann", created_at=AT, updated_at=AT, version=2),
    t.FOLLOW: e.Follow(customer_id="ann", product_id="mug", created_at=AT),
    t.DISCOUNT: e.Discount(
        code="SPRING",
        rate=2000,
        valid_from=AT,
        limit=50,
        parts=4,
        minimum=1000,
        currency="EUR",
        created_at=AT,
        updated_at=AT,
    ),
    t.TAX_TABLE: e.TaxTable(
        rates=(e.TaxRate(destination="AT", tax_class="standard", valid_from="2016-01-01", rate=2000),),
        reverse_charge_in=("DE",),
        created_at=AT,
        updated_at=AT,
    ),
    t.SHIPPING_TABLE: e.ShippingTable(
        methods=(
            e.ShippingMethod(
                id="standard",
                name="Parcel",
                rates=(e.ShippingRate(destination="AT", currency="EUR", minimum=0, price=490),),
                days=e.DeliveryDays(min=2, max=4),
                free_from={"EUR": 5000},
            ),
        ),
        created_at=AT,
        updated_at=AT,
    ),
    t.SELLER: e.Seller(
        address=e.Address(name="Elm & Sons", street="2 Elm Row", postcode="1010", city="Wien", country="AT"),
        tax_ids=("ATU12345675",),
        created_at=AT,
        bank="AT61 1904 3002 3457 3201",
    ),
    t.REDEMPTION_POOL: e.RedemptionPool(code="SPRING", part=3, left=12, created_at=AT),
    t.ORDER: order(),
    t.ARCHIVED_ORDER: archived_order(),
    t.EXPIRY_MARKER: e.ExpiryMarker(order_id="o1", customer_id="ann", created_at=AT, ttl=TTL),
    t.PAYMENT: payment(),
    t.STARTED_PAYMENT: e.StartedPayment(
        order_id="o1", payment_id="pi_1", amount=2500, currency="EUR", created_at=AT, updated_at=AT
    ),
    t.PAYMENT_CLAIM: e.PaymentClaim(payment_id="pi_1", order_id="o1", created_at=AT),
    t.KEPT_EVENT: e.KeptEvent(
        order_id="o1",
        payment_id="pi_1",
        object_id="dp_1",
        kind="DISPUTE",
        status="OPEN",
        amount=1250,
        currency="EUR",
        created_at=AT,
        updated_at=AT,
    ),
    t.REFUND: refund(),
    t.RETURN: e.Return(
        order_id="o1",
        return_id="ret_1",
        customer_id="ann",
        quantities={"mug": 1},
        restocked={"mug": 1},
        amount=1250,
        shipping=0,
        currency="EUR",
        created_at=AT,
    ),
    t.SHIPMENT: shipment(carrier="dhl", tracking_number="42"),
    t.INVOICE: e.Invoice(
        invoice_id="2026-00000001",
        order_id="o1",
        customer_id="ann",
        name="Ann Ash",
        address=HOME_ADDRESS,
        issued_at=AT,
        currency="EUR",
        total=3490,
        lines=LINES,
        payments=(e.Paid(payment_id="pi_1", amount=3490),),
        taxes=(e.TaxLine(rate=2000, net=2908, tax=582),),
        created_at=AT,
    ),
    t.INVOICE_SERIES: e.InvoiceSeries(series="2026", last=1, created_at=AT),
    t.ACCOUNT: e.Account(
        account_id="a1",
        kind="STORE_CREDIT",
        currency="EUR",
        balance=1250,
        customer_id="ann",
        created_at=AT,
        updated_at=AT,
        version=42,
    ),
    t.ENTRY: e.Entry(account_id="a1", version=42, at=AT, reason="REFUNDED", amount=1250, balance=1250, order_id="o1"),
    t.COMMAND: e.Command(
        caller="ann", key="k1", command="receive_stock", fingerprint="1:f", result="{}", created_at=AT, ttl=TTL
    ),
    t.REACTION_PROGRESS: e.ReactionProgress(
        effect_id="c1", reaction="issue_invoice", result="2026-00000001", created_at=AT, ttl=TTL
    ),
    t.NOTIFICATION: e.Notification(
        customer_id="ann",
        order_id="o1",
        effect_id="c1",
        at=AT,
        event="OrderPlaced",
        status="SENT",
        claim="x",
        claimed_until=TTL,
        ttl=TTL,
        message_id="m1",
    ),
    t.CAMPAIGN: e.Campaign(
        product_id="mug",
        event="PriceDropped",
        event_id="c1",
        event_at=AT,
        status="SENDING",
        began_at=AT,
        cooldown_until=TTL,
        after="FOLLOWED_BY#ann",
    ),
    t.ORDER_SUMMARY: e.OrderSummary(
        customer_id="ann",
        order_id="o1",
        placed_at=AT,
        status="PENDING",
        currency="EUR",
        total=3490,
        version=1,
        items=3,
        lines={"mug": e.PurchasedLine(name="Mug", quantity=2, price=1250)},
    ),
    t.SALE: e.Sale(
        order_id="o1",
        product_id="mug",
        customer_id="ann",
        placed_at=AT,
        name="Mug",
        quantity=2,
        price=1250,
        currency="EUR",
        version=2,
        ttl=TTL,
    ),
    t.FEED_ENTRY: e.FeedEntry(list="PAYMENTS", order_id="o1", id="pi_1", created_at=AT, version=1),
    t.ORDER_NUMBER: e.OrderNumber(
        order_id="o1",
        placed_at=AT,
        version=1,
        company_id="acme",
        phone_hash="p1",
    ),
    t.EARLIER_TIMELINE: e.EarlierTimeline(
        order_id="o1",
        first_version=1,
        entries={"1": e.TimelineEntry(at=AT, event="OrderPlaced", status="PENDING")},
        created_at=AT,
    ),
    t.ACTIVITY: e.Activity(
        customer_id="ann", at=AT, change_id="c1", event="OrderPlaced", order_id="o1", ttl=TTL, version=1
    ),
    t.AUDIT_ENTRY: e.AuditEntry(
        item="PRODUCT:mug",
        sort_key="PRODUCT",
        at=AT,
        change_id="c1",
        by="staff:sue",
        command="PATCH /products/{product_id}",
        reason="new list",
        values_before={"price": "1250"},
        values_after={"price": "1390"},
        ttl=TTL,
    ),
    t.RATING: e.Rating(product_id="mug", reviews=2, stars=9),
    t.BEST_SELLER: e.BestSeller(product_id="mug", season=AT[:7], pieces=3),
    t.SALES_MINUTE: e.SalesMinute(shard="0", minute=AT, currency="EUR", orders=1, pieces=3, revenue=3490, ttl=TTL),
    t.CONTRIBUTION: e.Contribution(
        source="o1",
        source_type="Order",
        as_of=f"{AT}#0000000002",
        amounts={"PRODUCT#mug / SEASON#2026-11": {"pieces": 2}},
        created_at=AT,
        ttl=TTL,
    ),
    t.WEBHOOK: e.Webhook(
        webhook_id="w1",
        url="https://hooks.example.com/orders",
        event_names=("OrderPaid",),
        where={"currency": "EUR"},
        status="ACTIVE",
        active_from=AT,
        created_at=AT,
        updated_at=AT,
        resumed_at=AT,
        secret_number=2,
        old_secret_until=moment(1),
        failures=1,
        replay=e.Replay(since=AT, event_names=("OrderPaid",), object_id="ORDER:o1/ORDER"),
    ),
    t.OUTBOX_EVENT: e.OutboxEvent(
        object_id="ORDER:o1/ORDER",
        position=f"{AT}/0000000002",
        event_id="c1",
        event_name="OrderPaid",
        at=AT,
        body='{"type":"OrderPaid"}',
        ttl=TTL,
    ),
    t.WEBHOOK_CURSOR: e.WebhookCursor(
        webhook_id="w1",
        object_id="ORDER:o1/ORDER",
        position=f"{AT}/0000000001",
        since=AT,
        ttl=TTL,
        retry_at=moment(1),
        failing_since=AT,
        attempts=1,
        sent_at=AT,
    ),
    t.DELIVERY: e.Delivery(
        webhook_id="w1",
        at=AT,
        event_id="c1",
        event_name="OrderPaid",
        object_id="ORDER:o1/ORDER",
        attempt=1,
        http_status=503,
        error=None,
        ms=120,
        ttl=TTL,
    ),
    t.SWEEP: e.Sweep(
        tool="migrate",
        name="0001",
        task="up",
        status="RUNNING",
        by="operator@desk",
        held_until=moment(1),
        started_at=AT,
        updated_at=AT,
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
