"""Everything the shop says no with. Each error carries fields, never text to parse; `api.problems` maps them to HTTP.

ShopError
├── Invalid(field, why)                   what was sent makes no sense
├── NotFound(what)                        there is none, or it is another's
├── NotAllowed(why)                       the caller may never do this
├── Refused                               it could have been, but not as things stand
│   ├── NotRegistered                     the caller has no customer profile yet
│   ├── AlreadyExists(what)
│   ├── EmailTaken
│   ├── UnknownProducts(product_ids)
│   ├── MixedCurrencies(currencies)
│   ├── OutOfStock(short)                 which products, how many left
│   ├── PriceChanged(changed)             since the client saw it
│   └── WrongState(what, state, command)  the table of states forbids it
└── KeyReused                             an idempotency key that came with another body before
"""

from collections.abc import Mapping


class ShopError(Exception):
    """The root: whatever is raised below is an answer to a caller, not a fault."""


class Invalid(ShopError):
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


class Refused(ShopError):
    """It could have been done, but not as things stand."""


class NotRegistered(Refused):
    def __init__(self) -> None:
        super().__init__("register as a customer first")


class AlreadyExists(Refused):
    def __init__(self, what: str) -> None:
        super().__init__(f"this {what} exists already")
        self.what = what


class EmailTaken(Refused):
    def __init__(self) -> None:
        super().__init__("another customer has this e-mail address")


class UnknownProducts(Refused):
    def __init__(self, product_ids: tuple[str, ...]) -> None:
        super().__init__(f"unknown products: {', '.join(product_ids)}")
        self.product_ids = product_ids


class MixedCurrencies(Refused):
    def __init__(self, currencies: tuple[str, ...]) -> None:
        super().__init__(f"one order is in one currency, these are {', '.join(currencies)}")
        self.currencies = currencies


class OutOfStock(Refused):
    """`short`: how many are left, by product."""

    def __init__(self, short: Mapping[str, int]) -> None:
        super().__init__("not enough stock: " + ", ".join(f"{left} left of {id}" for id, left in short.items()))
        self.short = short


class PriceChanged(Refused):
    """`changed`: the price now, by product."""

    def __init__(self, changed: Mapping[str, int]) -> None:
        super().__init__("the price changed: " + ", ".join(f"{id} is now {price}" for id, price in changed.items()))
        self.changed = changed


class WrongState(Refused):
    def __init__(self, what: str, state: str, command: str) -> None:
        super().__init__(f"cannot {command}: the {what} is {state}")
        self.what, self.state, self.command = what, state, command


class KeyReused(ShopError):
    def __init__(self) -> None:
        super().__init__("this Idempotency-Key came with a different request before")
