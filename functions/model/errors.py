"""The errors that the shop raises to reject a request. functions/api/http/problems.py converts them to HTTP responses.

ShopError
├── InvalidInput(field, why)              a field of the request is invalid
├── NotFound(what)                        it does not exist, or the caller may not see it: the error hides which
├── NotAllowed(why)                       the caller may never do this
├── CommandRejected                       the command is valid, but the current data does not allow it
│   ├── NotRegistered                     the caller has no customer profile yet
│   ├── AlreadyExists(what)               an item with this id exists already
│   ├── NotEmpty(what)                    the object to delete still has products, subcategories or members
│   ├── EmailTaken                        another customer uses this e-mail address
│   ├── InAnotherCompany(company_id)      the customer is already in another company
│   ├── UnknownProducts(product_ids)      no products with these ids exist
│   ├── Discontinued(product_ids)         these products are not sold any more
│   ├── UnknownCategory(field, path)      a product's category, or the parent of the new category, does not exist
│   ├── NotBought                         the product to review was not delivered with the caller's order
│   ├── MixedCurrencies(currencies)       the products of an order have prices in several currencies
│   ├── OutOfStock(short)                 not enough stock; `short` has the quantities left, by product
│   ├── PriceChanged(changed)             prices changed since they were read; `changed` has the new ones, by product
│   ├── TotalChanged(total)               the order would cost another total than the client expects
│   ├── NoTaxRate(country, tax_class)     the tax table has no rate for the destination of the order
│   ├── ShippingMethodNotAvailable(shipping_method, available)  `available` has the ids that the order can choose
│   ├── DiscountNotValid(code, why)       the code is unknown, not valid now or for this order, or used up
│   ├── InsufficientFunds(balance)        the credit account does not have enough money for the payment or transfer
│   ├── SelfTransfer                      a transfer from an account to itself
│   ├── WrongCurrency(wanted, got)        the amount is in another currency than required
│   ├── TooManyPayments(most)             more payments than one order may have
│   ├── PaymentInProgress(amount, currency)  the money of an earlier payment is on its way
│   ├── PaymentNotPossible(code)          the payment provider does not take this amount or currency
│   ├── TooMuch(field, most)              more than can be paid, shipped, returned or refunded; `most` is the maximum
│   ├── TooManyUnpaidOrders(most)         the customer has the maximum number of unpaid orders
│   ├── ReturnWindowOver(ended_at)        the period for returns has ended
│   └── WrongState(what, state, command)  the state table forbids the command in this state
├── GuestLinkInvalid(why)                 the link to the order of a guest is wrong, expired or revoked
├── IdempotencyKeyReused                  the idempotency key was used with a different request
└── TooManyWrites(...)                    the customer sent more writes than allowed; send this request again later
"""

from collections.abc import Mapping


class ShopError(Exception):
    """The base class of all errors that give a caller the reason for a rejection. They are not failures of the shop."""


class InvalidInput(ShopError):
    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


class NotFound(ShopError):
    def __init__(self, what: str) -> None:
        super().__init__(f"no such {what}")
        self.what = what


class NotAllowed(ShopError):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class CommandRejected(ShopError):
    """The command is valid, but the current data of the shop does not allow it, for example the state of the order."""


class NotRegistered(CommandRejected):
    """The caller has no customer profile yet. `is_staff`: whether the text explains how staff can order."""

    def __init__(self, *, is_staff: bool = False) -> None:
        how = "; staff can also order for a customer: send the customer_id" if is_staff else ""
        super().__init__(f"register as a customer first, with POST /customers{how}")


class AlreadyExists(CommandRejected):
    def __init__(self, what: str) -> None:
        super().__init__(f"this {what} already exists")
        self.what = what


class NotEmpty(CommandRejected):
    def __init__(self, what: str) -> None:
        super().__init__(f"it still has {what}")
        self.what = what


class EmailTaken(CommandRejected):
    def __init__(self) -> None:
        super().__init__("another customer uses this e-mail address")


class InAnotherCompany(CommandRejected):
    def __init__(self, company_id: str) -> None:
        super().__init__("a customer can be in one company only, and this customer is in another one")
        self.company_id = company_id


class UnknownProducts(CommandRejected):
    def __init__(self, product_ids: tuple[str, ...]) -> None:
        super().__init__(f"unknown products: {', '.join(product_ids)}")
        self.product_ids = product_ids


class Discontinued(CommandRejected):
    def __init__(self, product_ids: tuple[str, ...]) -> None:
        super().__init__(f"not sold any more: {', '.join(product_ids)}")
        self.product_ids = product_ids


class UnknownCategory(CommandRejected):
    def __init__(self, field: str, path: str) -> None:
        self.field, self.path, self.why = field, path, f"the category {path} does not exist: create it first"
        super().__init__(f"{field}: {self.why}")


class NotBought(CommandRejected):
    def __init__(self) -> None:
        super().__init__("this order has not delivered the product to you")


class MixedCurrencies(CommandRejected):
    def __init__(self, currencies: tuple[str, ...]) -> None:
        super().__init__(f"all products of an order must have the same currency; these have {', '.join(currencies)}")
        self.currencies = currencies


class OutOfStock(CommandRejected):
    def __init__(self, short: Mapping[str, int]) -> None:
        super().__init__("not enough stock: " + ", ".join(f"{left} left of {id}" for id, left in short.items()))
        self.short = short


class PriceChanged(CommandRejected):
    def __init__(self, changed: Mapping[str, int]) -> None:
        super().__init__("the price changed: " + ", ".join(f"{id} is now {price}" for id, price in changed.items()))
        self.changed = changed


class TotalChanged(CommandRejected):
    def __init__(self, total: int) -> None:
        super().__init__(f"the total is now {total}: show the customer a new quote")
        self.total = total


class NoTaxRate(CommandRejected):
    def __init__(self, country: str, tax_class: str) -> None:
        super().__init__(f"the shop does not sell goods of the tax class {tax_class} to {country}: it has no tax rate")
        self.country, self.tax_class = country, tax_class


class ShippingMethodNotAvailable(CommandRejected):
    """The shop does not send the order with this shipping method.

    `shipping_method`: the id in the request, or None if the request named no method. `available`: the ids of the
    methods that the order can choose. It is empty if the shop has no rate for the destination and currency.
    """

    def __init__(self, shipping_method: str | None, available: tuple[str, ...]) -> None:
        wanted = "no shipping method is" if shipping_method is None else f"the shipping method {shipping_method} is not"
        use = f"use one of: {', '.join(available)}" if available else "use another address or currency"
        super().__init__(f"{wanted} available for this order; {use}")
        self.shipping_method, self.available = shipping_method, available


class DiscountNotValid(CommandRejected):
    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"discount code {code}: {why}")
        self.code, self.why = code, why


class InsufficientFunds(CommandRejected):
    def __init__(self, balance: int) -> None:
        super().__init__(f"the balance of the account is {balance}")
        self.balance = balance


class SelfTransfer(CommandRejected):
    def __init__(self) -> None:
        super().__init__("the source and the destination must be different accounts")


class WrongCurrency(CommandRejected):
    def __init__(self, wanted: str, got: str) -> None:
        super().__init__(f"the currency must be {wanted}, not {got}")
        self.wanted, self.got = wanted, got


class TooManyPayments(CommandRejected):
    def __init__(self, most: int) -> None:
        super().__init__(f"an order can have at most {most} payments")
        self.most = most


class PaymentInProgress(CommandRejected):
    def __init__(self, amount: int, currency: str) -> None:
        super().__init__("an earlier payment for this order is in progress: wait until it succeeds or fails")
        self.amount, self.currency = amount, currency


class PaymentNotPossible(CommandRejected):
    def __init__(self, code: str) -> None:
        super().__init__(f"the payment provider does not take this payment: {code}")
        self.code = code


class TooMuch(CommandRejected):
    def __init__(self, field: str, most: int) -> None:
        super().__init__(f"{field}: the maximum is {most}")
        self.field, self.most = field, most


class TooManyUnpaidOrders(CommandRejected):
    def __init__(self, most: int) -> None:
        super().__init__(f"you have {most} or more unpaid orders: pay or cancel one of them first")
        self.most = most


class ReturnWindowOver(CommandRejected):
    def __init__(self, ended_at: str) -> None:
        super().__init__(f"the goods could be returned until {ended_at}")
        self.ended_at = ended_at


class WrongState(CommandRejected):
    def __init__(self, what: str, state: str, command: str) -> None:
        super().__init__(f"cannot {command}: the {what} is {state}")
        self.what, self.state, self.command = what, state, command


class GuestLinkInvalid(ShopError):
    def __init__(self, why: str) -> None:
        super().__init__(f"the link to the order {why}")


class IdempotencyKeyReused(ShopError):
    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used with a different request")


class TooManyWrites(ShopError):
    """The customer sent more writes than allowed: `burst` at once, then `per_minute` a minute."""

    def __init__(self, burst: int, per_minute: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"a customer may send {burst} writes at once, then {per_minute} a minute: "
            f"send this request again in {retry_after_seconds} seconds"
        )
        self.retry_after_seconds = retry_after_seconds
