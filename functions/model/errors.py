"""Everything the shop says no with. Each error carries fields, never text to parse; `api.problems` maps them to HTTP.

ShopError
├── Invalid(field, why)                   what was sent makes no sense
├── NotFound(what)                        there is none, or it is another's
├── NotAllowed(why)                       the caller may never do this
├── Refused                               it could have been, but not as things stand
│   ├── NotRegistered                     the caller has no customer profile yet
│   ├── AlreadyExists(what)
│   ├── EmailTaken
│   ├── InAnotherCompany(company_id)      a customer is in one at most
│   ├── UnknownProducts(product_ids)
│   ├── UnknownCategory(path)             there is none to put another into
│   ├── NotBought                         of this order the caller has none of that product
│   ├── MixedCurrencies(currencies)
│   ├── OutOfStock(short)                 which products, how many left
│   ├── PriceChanged(changed)             since the client saw it
│   ├── DiscountNotValid(code, why)       there is none, not now, not for this order, or redeemed too often
│   ├── InsufficientFunds(balance)        a credit account holds less
│   ├── SelfTransfer                      from an account to itself
│   ├── WrongCurrency(wanted, got)
│   ├── TooManyPayments(most)             one order is paid in so many parts
│   ├── TooMuch(field, most)              more than there is to be shipped, returned or given back
│   ├── ReturnWindowOver(ended_at)
│   ├── TooEarly(retry_after_seconds)     what it is about was not told yet: tell it again
│   └── WrongState(what, state, command)  the table of states forbids it
└── KeyReused                             an idempotency key that came with another body before
"""

from collections.abc import Mapping


class ShopError(Exception):
    """The root: whatever is raised below is an answer to a caller, not a fault."""


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
    """It could have been done, but not as things stand."""


class NotRegistered(CommandRejected):
    def __init__(self) -> None:
        super().__init__("register as a customer first")


class AlreadyExists(CommandRejected):
    def __init__(self, what: str) -> None:
        super().__init__(f"this {what} exists already")
        self.what = what


class EmailTaken(CommandRejected):
    def __init__(self) -> None:
        super().__init__("another customer has this e-mail address")


class InAnotherCompany(CommandRejected):
    """`company_id`: which."""

    def __init__(self, company_id: str) -> None:
        super().__init__("a customer is in one company at most, and this one is in another")
        self.company_id = company_id


class UnknownProducts(CommandRejected):
    def __init__(self, product_ids: tuple[str, ...]) -> None:
        super().__init__(f"unknown products: {', '.join(product_ids)}")
        self.product_ids = product_ids


class UnknownCategory(CommandRejected):
    def __init__(self, path: str) -> None:
        super().__init__(f"there is no category {path}: make that first")
        self.path = path


class NotBought(CommandRejected):
    def __init__(self) -> None:
        super().__init__("none of this product has been delivered to you with this order")


class MixedCurrencies(CommandRejected):
    def __init__(self, currencies: tuple[str, ...]) -> None:
        super().__init__(f"one order is in one currency, these are {', '.join(currencies)}")
        self.currencies = currencies


class OutOfStock(CommandRejected):
    """`short`: how many are left, by product."""

    def __init__(self, short: Mapping[str, int]) -> None:
        super().__init__("not enough stock: " + ", ".join(f"{left} left of {id}" for id, left in short.items()))
        self.short = short


class PriceChanged(CommandRejected):
    """`changed`: the price now, by product."""

    def __init__(self, changed: Mapping[str, int]) -> None:
        super().__init__("the price changed: " + ", ".join(f"{id} is now {price}" for id, price in changed.items()))
        self.changed = changed


class DiscountNotValid(CommandRejected):
    """A discount code that this order cannot have. `why` says it in words."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"discount code {code}: {why}")
        self.code, self.why = code, why


class InsufficientFunds(CommandRejected):
    """`balance`: what is there, in minor units."""

    def __init__(self, balance: int) -> None:
        super().__init__(f"the account holds {balance}")
        self.balance = balance


class SelfTransfer(CommandRejected):
    def __init__(self) -> None:
        super().__init__("from an account to itself nothing can be transferred")


class WrongCurrency(CommandRejected):
    def __init__(self, wanted: str, got: str) -> None:
        super().__init__(f"this is in {wanted}, not in {got}")
        self.wanted, self.got = wanted, got


class TooManyPayments(CommandRejected):
    def __init__(self, most: int) -> None:
        super().__init__(f"an order is paid in {most} parts at most")
        self.most = most


class TooMuch(CommandRejected):
    """`field`: of what, `most`: how much there is."""

    def __init__(self, field: str, most: int) -> None:
        super().__init__(f"{field}: {most} at most")
        self.field, self.most = field, most


class ReturnWindowOver(CommandRejected):
    def __init__(self, ended_at: str) -> None:
        super().__init__(f"it could be returned until {ended_at}")
        self.ended_at = ended_at


class TooEarly(CommandRejected):
    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("what it is about was not told yet")
        self.retry_after_seconds = retry_after_seconds


class WrongState(CommandRejected):
    def __init__(self, what: str, state: str, command: str) -> None:
        super().__init__(f"cannot {command}: the {what} is {state}")
        self.what, self.state, self.command = what, state, command


class IdempotencyKeyReused(ShopError):
    def __init__(self) -> None:
        super().__init__("this Idempotency-Key came with a different request before")
