"""The oracle's rules for totals: best sellers, sales by minute, and ratings, added up from orders and reviews."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from proof.oracle.arithmetic import MAX_CLOCK_ERROR_SECONDS, paid_for
from proof.oracle.books import Books, Item

MONTH_IS_OPEN_DAYS, MINUTE_IS_KEPT_DAYS = 60, 30
MAX_RECORD_DELAY_DAYS = 30 + 2 * 14
"""How late a change may be counted: a failed record is kept for 30 days, then twice 14 days in a dead-letter queue."""
MARGIN = timedelta(days=1)
"""A total is checked only if it ends more than this time after the end of the run."""
MAX_CALL_SECONDS = 16 * 60
"""How long a write may take after its time was read."""


def best_sellers_are_the_pieces_sold(books: Books) -> Iterator[str]:
    """Check the pieces of each product that were sold in a month, less the pieces that were returned in the month.

    A month is final 60 days after its end. Final months are not checked.
    """
    sold: Counter[tuple[str, str]] = Counter()
    for order in books.orders.values():
        for product, pieces in (order.kept if order.is_sold else Counter[str]()).items():
            sold[product, _month(order.item["paid_at"])] += pieces
        for item in order.of_type("Return"):
            for product, pieces in item["quantities"].items():
                sold[product, _month(item["created_at"])] -= pieces
    found = {(item["product_id"], item["season"]): item["pieces"] for item in books.of_type("BestSeller")}
    for place in sold.keys() | found.keys():
        if _is_open(books, _month_ends(place[1]) + timedelta(days=MONTH_IS_OPEN_DAYS)):
            books.count_premise(f"the sales of a product in {place[1]} were counted")
            if sold[place] != found.get(place, 0):
                yield f"{place[0]} in {place[1]}: {sold[place]} were sold, but {found.get(place, 0)} are counted"


def final_months_stay_as_they_were(books: Books) -> Iterator[str]:
    """Check that nothing, not even a repair, changes or deletes a month's number of sold pieces once the month is
    final.

    At this time, the orders of the month are in the archive, so nothing in the table says how many pieces were sold.
    """
    for (partition, sort), versions in books.seen.history.items():
        if sort.startswith("SEASON#"):
            month = sort.removeprefix("SEASON#")
            final = _month_ends(month) + timedelta(days=MONTH_IS_OPEN_DAYS)
            last = (final + timedelta(days=MAX_RECORD_DELAY_DAYS)).timestamp()
            books.count_premise("a month was final", datetime.fromtimestamp(books.seen.now, UTC) > final)
            at, image = versions[-1]
            if at > final.timestamp():
                done, days = "changed" if image else "deleted", (at - final.timestamp()) / 86_400
                yield from books.violation_unless(
                    f"{partition} in {month} was {done} {days:.0f} days after it was final",
                    {"a late record changed a final month": at <= last},
                )


def minutes_are_the_sales_of_that_minute(books: Books) -> Iterator[str]:
    """Check orders, pieces and revenue of each minute and currency in which an order was paid or goods came back."""
    expected: Counter[tuple[str, str, str]] = Counter()
    for order in books.orders.values():
        if order.is_sold:
            for_dropped = paid_for(order.item["lines"], books.goods_rows(order), order.dropped)
            revenue = max(0, order.item["total"] - for_dropped - order.item.get("withdrawn", 0))
            _add(expected, order.item, order.item["paid_at"], 1, order.kept.total(), revenue)
        for item in order.of_type("Return"):
            pieces = sum(item["quantities"].values())
            _add(expected, order.item, item["created_at"], 0, -pieces, -item["amount"] - item["owed"])
    found: Counter[tuple[str, str, str]] = Counter()
    for item in books.of_type("SalesMinute"):
        _add(found, item, item["minute"], item["orders"], item["pieces"], item["revenue"])
    for minute, currency, name in expected.keys() | found.keys():
        if _is_open(books, datetime.fromisoformat(f"{minute}:00Z") + timedelta(days=MINUTE_IS_KEPT_DAYS)):
            books.count_premise(f"the {name} of a minute were counted")
            counted, right = found[minute, currency, name], expected[minute, currency, name]
            if counted != right:
                yield f"{minute} in {currency}: {right} {name}, but {counted} are counted"


def _add(sums: Counter[tuple[str, str, str]], of: Item, at: str, orders: int, pieces: int, revenue: int) -> None:
    minute = f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%dT%H:%M}"
    for name, amount in (("orders", orders), ("pieces", pieces), ("revenue", revenue)):
        sums[minute, of["currency"], name] += amount


def _month(at: str) -> str:
    return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m}"


def _month_ends(month: str) -> datetime:
    year, number = map(int, month.split("-"))
    return datetime(year + (number == 12), number % 12 + 1, 1, tzinfo=UTC)


def _is_open(books: Books, ends: datetime) -> bool:
    return datetime.fromtimestamp(books.seen.now, UTC) + MARGIN < ends


def orders_were_paid_when_they_say(books: Books) -> Iterator[str]:
    """Check that the payment time in an order is the time when the table first stored the order as paid."""
    for order in books.orders.values():
        paid_at = order.item.get("paid_at")
        written = next((at for at, item in order.versions if item.get("paid_at")), None)
        if paid_at is None or written is None:
            if order.is_sold:
                yield f"order {order.id} is {order.status} and was never paid"
            continue
        books.count_premise("the time of a payment was checked")
        late = written - datetime.fromisoformat(paid_at).timestamp()
        if not -MAX_CLOCK_ERROR_SECONDS <= late <= MAX_CALL_SECONDS:
            yield f"order {order.id} has the payment time {paid_at}, {late:.0f} seconds before its payment"


def ratings_are_the_stars_of_the_reviews(books: Books) -> Iterator[str]:
    """Check the number of reviews of each product and the sum of their stars."""
    reviews: Counter[str] = Counter()
    stars: Counter[str] = Counter()
    for item in books.of_type("Review"):
        reviews[item["product_id"]] += 1
        stars[item["product_id"]] += item["stars"]
    found = {item["product_id"]: (item["reviews"], item["stars"]) for item in books.of_type("Rating")}
    for product in reviews.keys() | found.keys():
        books.count_premise("the rating of a product was checked")
        if found.get(product, (0, 0)) != (reviews[product], stars[product]):
            wanted = reviews[product], stars[product]
            yield f"{product} has the reviews and stars {wanted}, but the rating {found.get(product)}"


def reviews_are_the_last_ones_written(books: Books) -> Iterator[str]:
    """Check that a review has the stars that its customer gave last, and that a deleted review is gone."""
    found = {(item["customer_id"], item["product_id"]): item["stars"] for item in books.of_type("Review")}
    path = "/products/([^/]+)/reviews/me"
    written = [*books.asked("PUT", path), *books.asked("DELETE", path)]
    places = {(one.caller, product) for (product,), one in written if one.caller not in books.erased}
    for customer, product in places:
        own = [one for (about,), one in written if (one.caller, about) == (customer, product)]
        done = [one for one in own if one.succeeded or one.is_uncertain]
        last = max(done, key=lambda one: one.asked_at, default=None)
        if last is None:
            continue
        books.count_premise(f"a review was found as written last: {last.method}")
        stars = last.body["stars"] if last.method == "PUT" else None
        is_concurrent = any(it.answered_at > last.asked_at for it in done if it is not last)
        if found.get((customer, product)) != stars:
            yield from books.violation_unless(
                f"{customer} gave {product} {stars} stars, but {found.get((customer, product))} are recorded",
                {"it is unknown which request came last": is_concurrent or not last.succeeded},
            )
