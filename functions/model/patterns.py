"""Every question the shop asks the table, by its number. Each is one request (one per shard where it says so)."""

from typing import Any

from functions.dynamodb.patterns import Get, Query, crossed, hidden
from functions.model import entities as e
from functions.model import table as t

OrderOrStub = e.Order | e.ArchivedOrder
CompanyOrMember = e.Company | e.Customer
MaybeErased = e.Customer | e.ErasedCustomer

# fmt: off
A1   = Get[e.Customer](      id="A1",   question="customer by id",                                             rows=(t.CUSTOMER,))
A2   = Get[e.EmailClaim](    id="A2",   question="customer by e-mail: whose claim (then A1)",                  rows=(t.EMAIL_CLAIM,))
A3   = Query[Any](           id="A3",   question="customer page: profile, settings and newest orders",         rows=(t.SETTINGS, t.CUSTOMER, t.ERASED_CUSTOMER, t.ORDER_SUMMARY))
A4   = Query[e.Settings](    id="A4",   question="settings of a customer",                                     rows=(t.SETTINGS,), newest_first=False)
A4b  = Get[e.Settings](      id="A4b",  question="one group of settings of a customer",                        rows=(t.SETTINGS,))
A5   = Query[e.Activity](    id="A5",   question="a customer's activity in a range of time, newest first",        rows=(t.ACTIVITY,), consistent=True)
A5b  = Query[e.Activity](    id="A5b",  question="activity across customers on a day, newest first",           rows=(t.ACTIVITY,), index="gsi2", shards=e.SHARDS)
A6   = Query[CompanyOrMember](id="A6",  question="a company and all its members",                              rows=(t.COMPANY, t.CUSTOMER), index="gsi1", newest_first=False)
A6b  = Get[e.Company](       id="A6b",  question="company by id",                                              rows=(t.COMPANY,))
A7   = Get[e.Product](       id="A7",   question="product by id",                                              rows=(t.PRODUCT,))
A7b  = Query[e.Product](     id="A7b",  question="products in a category",                                     rows=(t.PRODUCT,), index="gsi1", newest_first=False)
A8   = Get[e.Category](      id="A8",   question="category by path",                                           rows=(t.CATEGORY,))
A8b  = Query[e.Category](    id="A8b",  question="the categories just below a path",                           rows=(t.CATEGORY,), index="gsi1", newest_first=False)
A8c  = Query[e.Category](    id="A8c",  question="all categories below a path",                                rows=(t.CATEGORY,), below="path", newest_first=False)
A9   = Query[e.Review](      id="A9",   question="reviews of a product, newest first",                         rows=(t.REVIEW,), index="gsi3")
A9b  = Query[e.Review](      id="A9b",  question="reviews by a customer, newest first",                        rows=(t.REVIEW,), index="gsi1")
A9c  = Get[e.Review](        id="A9c",  question="what a customer says of a product",                          rows=(t.REVIEW,))
A9d  = Get[e.Rating](        id="A9d",  question="what buyers think of a product: its rating",                  rows=(t.RATING,))
A10  = Query[e.Follow](      id="A10",  question="which products a customer follows",                          rows=(t.FOLLOW,), newest_first=False)
A10b = Query[e.Follow](      id="A10b", question="who follows a product",                                      rows=(t.FOLLOW,), index="gsi1", newest_first=False)
A10c = Get[e.Follow](        id="A10c", question="whether a customer follows a product",                       rows=(t.FOLLOW,))
A11  = Query[e.Stock](       id="A11",  question="stock of a product, all parts",                              rows=(t.STOCK,), newest_first=False, consistent=True)
A12  = Get[OrderOrStub](     id="A12",  question="order by id",                                                rows=(t.ORDER, t.ARCHIVED_ORDER))
A12b = Query[Any](           id="A12b", question="order with all it owns",                                     rows=(t.ORDER, t.ARCHIVED_ORDER, t.EXPIRY, t.INVOICE, t.ORDER_LINE, t.PAYMENT, t.REFUND, t.RETURN, t.SHIPMENT, t.TIMELINE), whole=True, newest_first=False, consistent=True)
A12c = Query[e.Payment](     id="A12c", question="payments of an order",                                       rows=(t.PAYMENT,), newest_first=False, consistent=True)
A12d = Query[e.Refund](      id="A12d", question="refunds of an order",                                        rows=(t.REFUND,), newest_first=False, consistent=True)
A12e = Query[e.Return](      id="A12e", question="returns of an order",                                        rows=(t.RETURN,), newest_first=False, consistent=True)
A13  = Get[OrderOrStub](     id="A13",  question="lines of an order: they lie in the order itself",            rows=(t.ORDER, t.ARCHIVED_ORDER))
A14  = Query[e.OrderSummary](id="A14",  question="a customer's orders, newest first",                          rows=(t.ORDER_SUMMARY,))
A15  = Get[e.Placer](        id="A15",  question="who placed an order",                                        rows=(t.ORDER, t.ARCHIVED_ORDER), view=e.Placer)
A16  = Query[e.QueuedOrder]( id="A16",  question="orders by status across customers, by time, newest first",   rows=(t.ORDER,), index="gsi2", shards=e.SHARDS, view=e.QueuedOrder)
A16b = Query[e.QueuedOrder]( id="A16b", question="orders by status across customers, by time, oldest first",   rows=(t.ORDER,), index="gsi2", shards=e.SHARDS, view=e.QueuedOrder, newest_first=False)
A17  = Query[e.OrderLine](   id="A17",  question="sales of a product in a date range",                         rows=(t.ORDER_LINE,), index="gsi3")
A18  = Query[e.OrderLine](   id="A18",  question="products a customer ordered in a date range",                rows=(t.ORDER_LINE,), index="gsi1")
A19  = Query[e.Invoice](     id="A19",  question="invoice of an order, with its payments as of its issue",     rows=(t.INVOICE,), consistent=True)
A19b = Query[e.Invoice](     id="A19b", question="invoice by id",                                              rows=(t.INVOICE,), index="gsi1")
A20  = Query[e.Invoice](     id="A20",  question="invoices of a customer in a date range",                     rows=(t.INVOICE,), index="gsi3")
A21  = Query[e.Shipment](    id="A21",  question="shipments of an order",                                      rows=(t.SHIPMENT,), newest_first=False, consistent=True)
A21b = Query[e.Shipment](    id="A21b", question="shipment by tracking number",                                rows=(t.SHIPMENT,), index="gsi1")
A21c = Get[e.Shipment](      id="A21c", question="shipment of an order by id",                                 rows=(t.SHIPMENT,))
A22  = Get[e.Discount](      id="A22",  question="discount code",                                              rows=(t.DISCOUNT,))
A22b = Get[e.Account](       id="A22b", question="gift card or store credit: its balance",                     rows=(t.ACCOUNT,))
A22c = Query[e.Entry](       id="A22c", question="an account's ledger, newest first",                          rows=(t.ENTRY,))
A22d = Query[e.Account](     id="A22d", question="a customer's accounts",                                      rows=(t.ACCOUNT,), index="gsi1")
A23  = Query[e.BestSeller](  id="A23",  question="best sellers of a month, best first",                        rows=(t.BEST_SELLER,), index="gsi3", shards=e.SHARDS)
A23b = Query[e.BestSeller](  id="A23b", question="how a product sold, by month",                               rows=(t.BEST_SELLER,))
A24  = Query[e.Metric](      id="A24",  question="what was sold, minute by minute",                            rows=(t.METRIC,), shards=e.SHARDS, newest_first=False)
A25  = Query[e.Notification](id="A25",  question="notifications sent to a customer",                           rows=(t.NOTIFICATION,))
A25b = Query[e.Notification](id="A25b", question="notifications for an order",                                 rows=(t.NOTIFICATION,), index="gsi1")
B1   = Query[Any](           id="B1",   question="an import, and what has become of its lines",                rows=(t.IMPORT, t.IMPORT_PART), newest_first=False, consistent=True)
B2   = Get[e.ImportPart](    id="B2",   question="what has become of a part of an import",                     rows=(t.IMPORT_PART,))
B3   = Get[e.ImportLines](   id="B3",   question="the lines of a part of an import",                           rows=(t.IMPORT_LINES,))
C1   = Get[e.Command](       id="C1",   question="what a keyed command answered before",                       rows=(t.COMMAND,))
C2   = Get[e.Payment](       id="C2",   question="a payment by the provider's id",                             rows=(t.PAYMENT,))
C3   = Get[e.Refund](        id="C3",   question="a refund of an order by id",                                 rows=(t.REFUND,))
C4   = Query[e.Redemptions]( id="C4",   question="how often a discount code can still be redeemed, all parts", rows=(t.REDEMPTIONS,), newest_first=False, consistent=True)
C5   = Get[MaybeErased](     id="C5",   question="customer by id, or what stays of them when they were erased", rows=(t.CUSTOMER, t.ERASED_CUSTOMER))
C6   = Query[e.OrderSummary](id="C6",   question="a customer's orders, newest first, none missed",            rows=(t.ORDER_SUMMARY,), consistent=True)
R1   = Get[e.Effect](        id="R1",   question="whether a reaction had its effect",                          rows=(t.EFFECT,))
R2   = Get[e.InvoiceSeries]( id="R2",   question="the last number of a series of invoices",                    rows=(t.INVOICE_SERIES,))
R3   = Query[e.ErasedCustomer](id="R3", question="customers whose erasure is not finished, oldest first",      rows=(t.ERASED_CUSTOMER,), index="gsi2", shards=e.SHARDS, newest_first=False)
R4   = Get[e.Campaign](      id="R4",   question="what the followers of a product were told last",              rows=(t.CAMPAIGN,))
R5   = Query[e.Payment](     id="R5",   question="payments that match no order, oldest first",                 rows=(t.PAYMENT,), index="gsi3", newest_first=False)
# fmt: on

PATTERNS: tuple[Get[Any] | Query[Any], ...] = tuple(p for p in list(globals().values()) if isinstance(p, Get | Query))

for _pattern in PATTERNS:
    if isinstance(_pattern, Query) and (_others := crossed(_pattern, t.ROWS)):
        raise TypeError(f"{_pattern.id} would also read {_others}: they sort between its rows")
    if _missing := hidden(_pattern, t.PROJECTED):
        raise TypeError(f"{_pattern.id} cannot show {_missing}: its rows or its index do not hold them")
