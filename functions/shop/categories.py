"""Categories: each catalogue has a tree of them. A category is a path, /kitchen/mugs/; the root is always there."""

from dataclasses import replace

from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, change, present, put
from functions.model.entities import MAIN, ROOT, Category, above
from functions.model.errors import AlreadyExists, NotFound, UnknownCategory
from functions.model.patterns import A8, A8b, A8c
from functions.model.table import CATEGORY
from functions.shop.shop import Caller, Shop, decided_again


def create_category(shop: Shop, caller: Caller, path: str, name: str, catalog: str = MAIN) -> Category:
    """A category in one that is there already, or in the root. The root itself may be made, to give it a name.

    For staff. Raises AlreadyExists, UnknownCategory where there is none to put it into, NotAllowed. Not repeatable: the
    second time there is one.
    """
    caller.must_be("staff")
    now = shop.instant()
    made = Category(catalog=catalog, path=path, name=name, created_at=now, updated_at=now)
    shop.table.write(
        put(CATEGORY, made, refused=lambda found: AlreadyExists("category")),
        *(_there(catalog, parent) for parent in [made.parent] if parent not in (None, ROOT)),
    )
    return made


def _there(catalog: str, path: str) -> Write[Category]:
    return present(CATEGORY, CATEGORY.key(catalog=catalog, path=path), refused=lambda found: UnknownCategory(path))


def rename_category(shop: Shop, caller: Caller, path: str, name: str, catalog: str = MAIN) -> Category:
    """For staff. Repeatable. Raises NotFound, NotAllowed."""
    caller.must_be("staff")

    def attempt() -> Category:
        before = category(shop, path, catalog)
        if before.name == name:
            return before
        after = replace(before, name=name, updated_at=shop.instant(), version=before.version + 1)
        shop.table.write(change(CATEGORY, before, after))
        return after

    return decided_again(shop, attempt)


def category(shop: Shop, path: str, catalog: str = MAIN) -> Category:
    """A8. Anybody may see it. Raises NotFound, for the root too where nobody gave it a name."""
    found = shop.table.get(A8, catalog=catalog, path=path)
    if found is None:
        raise NotFound("category")
    return found


def ancestors_of(shop: Shop, path: str, catalog: str = MAIN) -> tuple[Category, ...]:
    """A8d: all categories above a path, from the top on: a BatchGet of exactly their keys. Anybody may see them.

    What was made this moment may not show yet: half the price of a consistent read is enough for a way back up.
    """
    found: list[Category] = shop.table.batch_get([CATEGORY.key(catalog=catalog, path=one) for one in above(path)])
    return tuple(sorted(found, key=lambda category: len(category.path)))


def children_of(shop: Shop, path: str, limit: int, after: str | None, catalog: str = MAIN) -> Page[Category]:
    """A8b: the categories just below a path, by path. Anybody may see them. None where there is no such path."""
    return shop.table.query(A8b, catalog=catalog, parent=path, limit=limit, after=after)


def descendants_of(shop: Shop, path: str, limit: int, after: str | None, catalog: str = MAIN) -> Page[Category]:
    """A8c: all categories below a path, each before those in it; nothing else is read. Anybody may see them."""
    return shop.table.query(A8c, catalog=catalog, path=path, limit=limit, after=after)
