"""The kinds of mails to customers, and the events that each kind reports. A customer can turn off each kind."""

from collections.abc import Mapping

ORDER_MAIL_KINDS: Mapping[str, tuple[str, ...]] = {
    "order_changes": (
        "OrderPlaced",
        "OrderPaid",
        "OrderCancelled",
        "OrderLapsed",
        "OrderCancelRequested",
        "OrderCancelRefused",
        "OrderCutShort",
        "GuestLinkRenewed",
    ),
    "shipments": ("OrderPartlyShipped", "OrderShipped", "OrderDelivered"),
    "refunds": ("OrderPartlyReturned", "OrderReturned", "RefundSucceeded", "CreditNoteIssued"),
}
"""The kinds of mails about an order."""
PRODUCT_ALERTS = "product_alerts"
MAIL_KINDS: Mapping[str, tuple[str, ...]] = {
    **ORDER_MAIL_KINDS,
    PRODUCT_ALERTS: ("StockReplenished", "PriceDropped"),
}
MAIL_KIND_BY_EVENT: Mapping[str, str] = {event: kind for kind, events in MAIL_KINDS.items() for event in events}
