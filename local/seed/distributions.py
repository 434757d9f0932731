"""The random distributions of `make fill`: how many orders, customers and products exist, and what happens to them.

All decisions come in a fixed order, with random numbers from one generator. So a seed always gives the same shop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from functions.model.entities import Address, DeliveryDays, ShippingMethod, ShippingRate


@dataclass(frozen=True)
class Distribution:
    """The probabilities and sizes of a generated shop. A share is a probability from 0 to 1.

    `years`: how long the shop has existed. `growth`: the orders of the last day divided by the orders of the first day.
    `weekday_weights`, `month_weights`, `hour_weights`: how much is ordered on each weekday (from Monday), in each
    month, and in each two hours of the day (UTC).

    `new_customer_share`: orders by new customers. Earlier customers place all other orders, and some customers order
    often. `product_weights`: product number n, from 0, is ordered in proportion to 1 / (n + 5), so a few products make
    most of the sales. `price_changes_per_year`: for each product. `line_weights`: how many orders have 1, 2, 3 and more
    products. `quantity_weights`: how many lines have 1, 2, 3 and more pieces.
    `company_share`: customers who belong to a company.

    `discount_share`: orders with a discount code. `lapsed_share`: orders that are never paid. `cancelled_share`: paid
    orders that their customers cancel before they leave the warehouse. `returned_share`: delivered orders with a
    return. `whole_return_share`: returns of all goods. `disputed_share`: paid orders whose payment a bank
    takes back. `lost_share`: disputes that the shop loses. `reviewed_share`: delivered orders that are reviewed.
    """

    years: int = 3
    growth: float = 3.0
    weekday_weights: Sequence[float] = (1.0, 0.95, 0.95, 1.0, 1.1, 1.3, 1.4)
    month_weights: Sequence[float] = (0.8, 0.8, 0.9, 0.9, 1.0, 0.9, 0.9, 0.9, 1.0, 1.0, 1.6, 1.9)
    hour_weights: Sequence[float] = (0.3, 0.1, 0.1, 0.4, 1.0, 1.2, 1.3, 1.2, 1.3, 1.8, 2.0, 1.0)
    new_customer_share: float = 0.2
    company_share: float = 0.06
    price_changes_per_year: float = 1.5
    line_weights: Sequence[float] = (0.48, 0.27, 0.14, 0.07, 0.04)
    quantity_weights: Sequence[float] = (0.75, 0.18, 0.07)
    discount_share: float = 0.12
    lapsed_share: float = 0.04
    cancelled_share: float = 0.03
    returned_share: float = 0.08
    whole_return_share: float = 0.4
    disputed_share: float = 0.004
    lost_share: float = 0.6
    reviewed_share: float = 0.15


STAR_WEIGHTS: Sequence[float] = (0.04, 0.05, 0.11, 0.3, 0.5)
"""The share of reviews with 1, 2, 3, 4 and 5 stars."""
PAYMENT_MINUTES = (0.5, 12.0)
"""The minimum and maximum time from an order to its payment. The times from here on are uniformly distributed."""
CANCEL_MINUTES = (2.0, 60.0)
DISPATCH_HOURS = (4.0, 40.0)
DELIVERY_HOURS = (20.0, 96.0)
RETURN_DAYS = (3.0, 27.0)
"""The minimum and maximum time from a delivery to a return. The laptop's return window is 30 days."""
REVIEW_DAYS = (1.0, 21.0)
DISPUTE_DAYS = (8.0, 45.0)
DISPUTE_END_DAYS = (10.0, 40.0)
LAPSE_DELAY = timedelta(minutes=2)
"""The time from the end of the payment window to the end of an unpaid order."""
PRICE_FACTORS = (0.85, 1.2)
"""The minimum and maximum of a product's new price, as a factor of its old price."""
CARRIERS = ("DHL", "UPS", "GLS", "Post")
COMPANIES = (
    "Alder & Sons", "Birch Office", "Cedar Hotels", "Dogwood Cafe", "Elm Row Studio", "Fir Logistics", "Hazel Schools",
    "Larch Works", "Maple Clinic", "Rowan Press",
)  # fmt: skip
TAX_RATES = ("AT standard 2000-01-01 2000", "DE standard 2007-01-01 1900", "* standard 2000-01-01 0")
SHIPPING_METHODS = (
    ShippingMethod(
        id="standard",
        name="Parcel",
        days=DeliveryDays(min=2, max=4),
        free_from={"EUR": 15_000},
        rates=(
            ShippingRate(destination="AT", currency="EUR", minimum=0, price=490),
            ShippingRate(destination="*", currency="EUR", minimum=0, price=990),
        ),
    ),
    ShippingMethod(
        id="shop",
        name="Shop in Vienna",
        pickup=True,
        rates=(ShippingRate(destination="AT", currency="EUR", minimum=0, price=0),),
    ),
)
SELLER = Address(name="Elm Row GmbH", street="2 Elm Row", postcode="1010", city="Wien", country="AT")
SELLER_TAX_IDS, SELLER_BANK = ("ATU12345675",), "AT61 1904 3002 3457 3201"
DISCOUNTS: Mapping[str, tuple[int, int]] = {"WELCOME10": (1_000, 0), "SPRING15": (1_500, 3_000), "THANKS5": (500, 0)}
"""The rate of each discount code in hundredths of a percent, and the minimum price of the goods in cents."""
CATEGORIES: Mapping[str, Mapping[str, tuple[int, Sequence[str]]]] = {
    "kitchen": {
        "mugs": (1_400, ("Mug", "Cup", "Beaker", "Espresso cup")),
        "pans": (4_900, ("Frying pan", "Saucepan", "Wok", "Casserole")),
        "knives": (3_500, ("Paring knife", "Bread knife", "Chef's knife")),
        "storage": (1_200, ("Jar", "Tin", "Lunch box", "Bottle")),
    },
    "home": {
        "lamps": (6_900, ("Desk lamp", "Floor lamp", "Night light")),
        "textiles": (2_900, ("Blanket", "Cushion", "Towel", "Curtain")),
        "clocks": (3_900, ("Wall clock", "Alarm clock")),
    },
    "garden": {
        "tools": (2_400, ("Trowel", "Spade", "Rake", "Pruner")),
        "pots": (1_800, ("Flower pot", "Planter", "Watering can")),
    },
    "office": {
        "paper": (600, ("Notebook", "Sketchbook", "Calendar", "Envelopes")),
        "pens": (900, ("Pen", "Pencil set", "Marker")),
        "bags": (5_500, ("Backpack", "Satchel", "Tote")),
    },
}
"""By category and subcategory: a typical price in cents, and the kinds of products."""
LOOKS = (
    "red", "blue", "green", "white", "black", "grey", "oak", "walnut", "linen", "steel", "clay", "brass", "striped",
    "speckled", "small", "large", "round", "tall",
)  # fmt: skip
FIRST_NAMES = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Greta", "Hugo", "Ida", "Jan", "Kira", "Leo", "Mia", "Nils", "Olga",
    "Paul", "Rosa", "Sam", "Tess", "Uwe", "Vera", "Will", "Yara", "Zoe",
)  # fmt: skip
LAST_NAMES = (
    "Ash", "Beck", "Crane", "Dorn", "Egger", "Frost", "Gruber", "Hale", "Ilic", "Jansen", "Kern", "Lang", "Moser",
    "Novak", "Otto", "Pichler", "Quist", "Roth", "Steiner", "Thorn", "Urban", "Vogel", "Weiss", "Zeman",
)  # fmt: skip
PLACES = (
    ("1010", "Wien", "AT"), ("4020", "Linz", "AT"), ("8010", "Graz", "AT"), ("10115", "Berlin", "DE"),
    ("80331", "München", "DE"), ("50667", "Köln", "DE"), ("8001", "Zürich", "CH"), ("1011", "Amsterdam", "NL"),
)  # fmt: skip
STREETS = ("Elm Row", "Birch Lane", "Mill Street", "Station Road", "Lake View", "Church Square")
OPINIONS: Mapping[int, Sequence[str]] = {
    1: ("Broke after a week.", "Not what I expected."),
    2: ("Smaller than in the picture.", "The colour is off."),
    3: ("Fine for the price.", "Does what it should."),
    4: ("Good quality, quick delivery.", "I would buy it again."),
    5: ("Exactly what I wanted.", "My favourite. I bought a second one."),
}
