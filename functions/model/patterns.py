"""Declare every access pattern of the shop.

An access pattern is a read with one request, or with one request for each shard. Shards are the partitions over which
the items of a busy key are spread.
"""

from typing import Any

from functions.dynamodb.patterns import Get, Query
from functions.model import entities as e
from functions.model import table as t

OrderOrArchived = e.Order | e.ArchivedOrder
CompanyOrMember = e.Company | e.Customer
CustomerOrErased = e.Customer | e.ErasedCustomer

# fmt: off
CUSTOMER_BY_ID   = Get[e.Customer](      id="A1",   description="customer by id",                                             rows=(t.CUSTOMER,))
CUSTOMER_BY_EMAIL   = Get[e.EmailClaim](    id="A2",   description="customer id by e-mail address (A1 then reads the customer)", rows=(t.EMAIL_CLAIM,))
CUSTOMERS        = Query[e.Customer](    id="A2b",  description="all registered customers, newest first",               rows=(t.CUSTOMER,), index="gsi3")
GUESTS_BY_EMAIL  = Query[e.Customer](    id="A2c",  description="guests with an e-mail address, newest first",               rows=(t.CUSTOMER,), index="gsi3")
CUSTOMER_OVERVIEW   = Query[Any](           id="A3",   description="customer page: profile, settings and newest orders",         rows=(t.SETTINGS, t.CUSTOMER, t.ERASED_CUSTOMER, t.ORDER_SUMMARY))
CUSTOMER_SETTINGS   = Query[e.Settings](    id="A4",   description="settings of a customer",                                     rows=(t.SETTINGS,), newest_first=False)
CUSTOMER_SETTINGS_BY_NAME  = Get[e.Settings](      id="A4b",  description="one group of settings of a customer",                        rows=(t.SETTINGS,))
CUSTOMER_ACTIVITY   = Query[e.Activity](    id="A5",   description="activity of a customer in a time range, newest first",          rows=(t.ACTIVITY,), consistent=True)
ACTIVITY_BY_DAY  = Query[e.Activity](    id="A5b",  description="activity of all customers on a day, newest first",           rows=(t.ACTIVITY,), index="gsi2", shards=e.ACTIVITY_SHARDS.read)
COMPANY_WITH_MEMBERS   = Query[CompanyOrMember](id="A6",  description="a company and all its members",                              rows=(t.COMPANY, t.CUSTOMER), index="gsi1", newest_first=False)
COMPANY_BY_ID  = Get[e.Company](       id="A6b",  description="company by id",                                              rows=(t.COMPANY,))
COMPANIES        = Query[e.Company](     id="A6c",  description="all companies",                                              rows=(t.COMPANY,), index="gsi3", newest_first=False)
PRODUCT_BY_ID   = Get[e.Product](       id="A7",   description="product by id",                                              rows=(t.PRODUCT,))
PRODUCTS_OF_CATEGORY  = Query[e.Product](     id="A7b",  description="products in a category, without its subcategories",          rows=(t.PRODUCT,), index="gsi1", newest_first=False)
CATEGORY_BY_PATH   = Get[e.Category](      id="A8",   description="category by path",                                           rows=(t.CATEGORY,))
CHILD_CATEGORIES  = Query[e.Category](    id="A8b",  description="direct subcategories of a category path",                    rows=(t.CATEGORY,), index="gsi1", newest_first=False)
DESCENDANT_CATEGORIES  = Query[e.Category](    id="A8c",  description="all subcategories of a category path, at any depth",         rows=(t.CATEGORY,), path_prefix="path", newest_first=False)
REVIEWS_OF_PRODUCT   = Query[e.Review](      id="A9",   description="reviews of a product, newest first",                         rows=(t.REVIEW,), index="gsi3")
REVIEWS_OF_CUSTOMER  = Query[e.Review](      id="A9b",  description="reviews by a customer, newest first",                        rows=(t.REVIEW,), index="gsi1")
REVIEW_BY_PRODUCT_AND_CUSTOMER  = Get[e.Review](        id="A9c",  description="review of a product by a customer",                          rows=(t.REVIEW,))
PRODUCT_RATING  = Get[e.Rating](        id="A9d",  description="rating of a product",                                         rows=(t.RATING,))
FOLLOWS_OF_CUSTOMER  = Query[e.Follow](      id="A10",  description="products that a customer follows",                           rows=(t.FOLLOW,), newest_first=False)
FOLLOWERS_OF_PRODUCT = Query[e.Follow](      id="A10b", description="customers that follow a product",                            rows=(t.FOLLOW,), index="gsi1", newest_first=False)
FOLLOW_BY_CUSTOMER_AND_PRODUCT = Get[e.Follow](        id="A10c", description="whether a customer follows a product",                       rows=(t.FOLLOW,))
STOCK_BY_PART  = Get[e.Stock](         id="A11",  description="stock part of a product",                                    rows=(t.STOCK,))
ORDER_BY_ID  = Get[OrderOrArchived](     id="A12",  description="order by id",                                                rows=(t.ORDER, t.ARCHIVED_ORDER))
ORDER_ITEM_COLLECTION = Query[Any](           id="A12b", description="order with all its items",                                   rows=t.rows_beside(t.ORDER), whole_partition=True, newest_first=False, consistent=True)
PAYMENTS_OF_ORDER = Query[e.Payment](     id="A12c", description="payments of an order",                                       rows=(t.PAYMENT,), newest_first=False, consistent=True)
REFUNDS_OF_ORDER = Query[e.Refund](      id="A12d", description="refunds of an order",                                        rows=(t.REFUND,), newest_first=False, consistent=True)
RETURNS_OF_ORDER = Query[e.Return](      id="A12e", description="returns of an order",                                        rows=(t.RETURN,), newest_first=False, consistent=True)
LINES_OF_ORDER  = Get[OrderOrArchived](     id="A13",  description="lines of an order (stored in the order item)",               rows=(t.ORDER, t.ARCHIVED_ORDER))
ORDERS_OF_CUSTOMER  = Query[e.OrderSummary](id="A14",  description="orders of a customer, newest first",                         rows=(t.ORDER_SUMMARY,))
ORDER_OWNER  = Get[e.OrderOwner](        id="A15",  description="customer who placed an order",                               rows=(t.ORDER, t.ARCHIVED_ORDER), view=e.OrderOwner)
ORDERS_BY_NUMBER  = Query[e.OrderNumber]( id="A15b", description="orders by the number that customers are given",              rows=(t.ORDER_NUMBER,), newest_first=False)
ORDERS_BY_STATUS_NEWEST_FIRST  = Query[e.QueuedOrder]( id="A16",  description="orders of all customers by status, newest first",            rows=(t.ORDER,), index="gsi2", shards=e.STATUS_SHARDS.read, view=e.QueuedOrder)
ORDERS_BY_STATUS_OLDEST_FIRST = Query[e.QueuedOrder]( id="A16b", description="orders of all customers by status, oldest first",            rows=(t.ORDER,), index="gsi2", shards=e.STATUS_SHARDS.read, view=e.QueuedOrder, newest_first=False)
SALES_OF_PRODUCT  = Query[e.Sale](        id="A17",  description="sales of a product in a date range",                         rows=(t.SALE,), shards=e.SALE_SHARDS.read)
PURCHASES_OF_CUSTOMER  = Query[e.OrderSummary](id="A18",  description="products a customer ordered in a date range",                rows=(t.ORDER_SUMMARY,))
INVOICES_OF_ORDER  = Query[e.Invoice](     id="A19",  description="invoice of an order, and the credit notes that correct it",    rows=(t.INVOICE,), newest_first=False, consistent=True)
INVOICE_BY_ID = Query[e.Invoice](     id="A19b", description="invoice or credit note by id",                                              rows=(t.INVOICE,), index="gsi1")
INVOICES_OF_CUSTOMER  = Query[e.Invoice](     id="A20",  description="invoices and credit notes of a customer in a date range",    rows=(t.INVOICE,), index="gsi3")
UNDOCUMENTED_ORDERS = Query[e.Order](    id="A20b", description="orders with money that left without a credit note",           rows=(t.ORDER,), index="gsi3", newest_first=False)
SHIPMENTS_OF_ORDER  = Query[e.Shipment](    id="A21",  description="shipments of an order",                                      rows=(t.SHIPMENT,), newest_first=False, consistent=True)
SHIPMENT_BY_TRACKING_NUMBER = Query[e.Shipment](    id="A21b", description="shipment by tracking number",                                rows=(t.SHIPMENT,), index="gsi1")
DISCOUNT_BY_CODE  = Get[e.Discount](      id="A22",  description="discount by code",                                           rows=(t.DISCOUNT,))
DISCOUNTS        = Query[e.Discount](    id="A22b", description="all discount codes",                                         rows=(t.DISCOUNT,), index="gsi3", newest_first=False)
TAX_TABLE        = Get[e.TaxTable](      id="A28", description="tax rates of all destinations",                               rows=(t.TAX_TABLE,))
SHIPPING_TABLE   = Get[e.ShippingTable](id="A30", description="shipping methods and their rates",                           rows=(t.SHIPPING_TABLE,))
LATEST_SELLER    = Query[e.Seller](      id="A29", description="latest version of the seller",                               rows=(t.SELLER,))
SELLER_BY_VERSION = Get[e.Seller](       id="A29b", description="seller by version",                                         rows=(t.SELLER,))
ACCOUNT_BY_ID = Get[e.Account](       id="A27", description="gift card or store credit account, with its balance",        rows=(t.ACCOUNT,))
ENTRIES_OF_ACCOUNT = Query[e.Entry](       id="A27b", description="ledger entries of an account, newest first",                 rows=(t.ENTRY,))
ACCOUNTS_OF_CUSTOMER = Query[e.Account](     id="A27c", description="accounts of a customer",                                     rows=(t.ACCOUNT,), index="gsi1")
ACCOUNT_ITEM_COLLECTION = Query[Any](         id="A27d", description="account with all its items",                                 rows=t.rows_beside(t.ACCOUNT), whole_partition=True, newest_first=False, consistent=True)
BEST_SELLERS_BY_SEASON  = Query[e.BestSeller](  id="A23",  description="best sellers of a month, best first",                        rows=(t.BEST_SELLER,), index="gsi3", shards=e.SEASON_SHARDS.read)
PIECES_OF_PRODUCT_AND_SEASON = Query[e.BestSeller](  id="A23b", description="pieces sold of a product, by month",                          rows=(t.BEST_SELLER,))
SALES_BY_MINUTE  = Query[e.SalesMinute](      id="A24",  description="sales totals, minute by minute",                             rows=(t.SALES_MINUTE,), shards=e.SALES_MINUTE_SHARDS.read, newest_first=False)
NOTIFICATIONS_OF_CUSTOMER  = Query[e.Notification](id="A25",  description="notifications sent to a customer",                           rows=(t.NOTIFICATION,))
NOTIFICATIONS_OF_ORDER = Query[e.Notification](id="A25b", description="notifications for an order",                                 rows=(t.NOTIFICATION,), filter_by="order_id")
CUSTOMER_ITEM_COLLECTION = Query[Any](        id="A26",  description="all items in a customer's partition",                        rows=t.rows_beside(t.CUSTOMER), whole_partition=True, consistent=True)
IMPORT_WITH_PARTS   = Query[Any](           id="B1",   description="import with the progress of all its parts",                  rows=(t.IMPORT, t.IMPORT_PART), newest_first=False, consistent=True)
IMPORT_PART_BY_NUMBER   = Get[e.ImportPart](    id="B2",   description="progress of one part of an import",                          rows=(t.IMPORT_PART,))
IMPORT_LINES_BY_PART   = Get[e.ImportLines](   id="B3",   description="lines of one part of an import",                             rows=(t.IMPORT_LINES,))
COMMAND_BY_KEY   = Get[e.Command](       id="C1",   description="stored response of a command with an idempotency key",       rows=(t.COMMAND,))
PAYMENT_BY_ID   = Get[e.Payment](       id="C2",   description="payment of an order by id",                                  rows=(t.PAYMENT,))
REFUND_BY_ID   = Get[e.Refund](        id="C3",   description="refund of an order by id",                                   rows=(t.REFUND,))
REDEMPTION_POOL_BY_CODE   = Query[e.RedemptionPool]( id="C4",   description="remaining redemptions of a discount code, all parts",        rows=(t.REDEMPTION_POOL,), newest_first=False, consistent=True)
CUSTOMER_OR_ERASED_BY_ID   = Get[CustomerOrErased](     id="C5",   description="customer by id, or the record of an erased customer",         rows=(t.CUSTOMER, t.ERASED_CUSTOMER))
ORDERS_OF_CUSTOMER_CONSISTENT   = Query[e.OrderSummary](id="C6",   description="orders of a customer, newest first, consistent read",       rows=(t.ORDER_SUMMARY,), consistent=True)
PAYMENT_CLAIM_BY_ID   = Get[e.PaymentClaim](  id="C7",   description="order that has the money of a provider's payment",            rows=(t.PAYMENT_CLAIM,))
KEPT_EVENTS_OF_PAYMENT = Query[e.KeptEvent](id="C8", description="disputes and refunds that wait for their payment",            rows=(t.KEPT_EVENT,), newest_first=False, consistent=True)
STARTED_PAYMENT_OF_ORDER = Get[e.StartedPayment](id="C9",  description="latest payment that was started for an order",               rows=(t.STARTED_PAYMENT,))
REACTION_PROGRESS_BY_ID   = Get[e.ReactionProgress](        id="R1",   description="idempotency record of a reaction",                           rows=(t.REACTION_PROGRESS,))
INVOICE_SERIES_BY_NAME   = Get[e.InvoiceSeries]( id="R2",   description="last invoice number of a series",                            rows=(t.INVOICE_SERIES,))
UNFINISHED_ERASURES   = Query[e.ErasedCustomer](id="R3", description="customers whose erasure is not finished, oldest first",      rows=(t.ERASED_CUSTOMER,), index="gsi2", shards=e.ERASURE_SHARDS.read, newest_first=False)
CAMPAIGN_BY_PRODUCT   = Get[e.Campaign](      id="R4",   description="latest alert campaign for a product and event",               rows=(t.CAMPAIGN,))
UNMATCHED_PAYMENTS_BY_DATE   = Query[Any](     id="R5",   description="payments and kept events that match no order, oldest first", rows=(t.PAYMENT, t.KEPT_EVENT), index="gsi3", newest_first=False)
# fmt: on

PATTERNS: tuple[Get[Any] | Query[Any], ...] = tuple(p for p in list(globals().values()) if isinstance(p, Get | Query))
