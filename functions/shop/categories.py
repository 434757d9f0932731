"""Categories: each catalogue has a tree of them. A category is a path, /kitchen/mugs/; the root is always there."""

from dataclasses import replace

from functions.dynamodb.store import QueryPage
from functions.dynamodb.writes import Write, check_exists, put_if_absent, update
from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY, Category, ancestor_paths
from functions.model.errors import AlreadyExists, NotFound, UnknownCategory
from functions.model.patterns import CATEGORY_BY_PATH, CHILD_CATEGORIES, DESCENDANT_CATEGORIES
from functions.model.table import CATEGORY
from functions.shop.shop import Caller, Shop, retry_on_conflict


def create_category(shop: Shop, caller: Caller, path: str, name: str, catalog: str = DEFAULT_CATALOG) -> Category:
    """A category in one that is there already, or in the root. The root itself may be made, to give it a name.

    For staff. Raises AlreadyExists, UnknownCategory where there is none to put it into, NotAllowed. Not repeatable: the
    second time there is one.
    """
    caller.require_group("staff")
    now = shop.now_instant()
    made = Category(catalog=catalog, path=path, name=name, created_at=now, updated_at=now)
    shop.table.write(
        put_if_absent(CATEGORY, made, condition_error=lambda found: AlreadyExists("category")),
        *(_check_category_exists(catalog, parent) for parent in [made.parent] if parent not in (None, ROOT_CATEGORY)),
    )
    return made


def _check_category_exists(catalog: str, path: str) -> Write[Category]:
    return check_exists(
        CATEGORY, CATEGORY.key(catalog=catalog, path=path), condition_error=lambda found: UnknownCategory(path)
    )


def rename_category(shop: Shop, caller: Caller, path: str, name: str, catalog: str = DEFAULT_CATALOG) -> Category:
    """For staff. Repeatable. Raises NotFound, NotAllowed."""
    caller.require_group("staff")

    def attempt() -> Category:
        before = get_category(shop, path, catalog)
        if before.name == name:
            return before
        after = replace(before, name=name, updated_at=shop.now_instant(), version=before.version + 1)
        shop.table.write(update(CATEGORY, before, after))
        return after

    return retry_on_conflict(shop, attempt)


def get_category(shop: Shop, path: str, catalog: str = DEFAULT_CATALOG) -> Category:
    """A8. Anybody may see it. Raises NotFound, for the root too where nobody gave it a name."""
    found = shop.table.get(CATEGORY_BY_PATH, catalog=catalog, path=path)
    if found is None:
        raise NotFound("category")
    return found


def list_ancestors(shop: Shop, path: str, catalog: str = DEFAULT_CATALOG) -> tuple[Category, ...]:
    """A8d: all categories above a path, from the top on: a BatchGet of exactly their keys. Anybody may see them.

    What was made this moment may not show yet: half the price of a consistent read is enough for a way back up.
    """
    found: list[Category] = shop.table.batch_get(
        [CATEGORY.key(catalog=catalog, path=one) for one in ancestor_paths(path)]
    )
    return tuple(sorted(found, key=lambda category: len(category.path)))


def list_children(
    shop: Shop, path: str, limit: int, after: str | None, catalog: str = DEFAULT_CATALOG
) -> QueryPage[Category]:
    """A8b: the categories just below a path, by path. Anybody may see them. None where there is no such path."""
    return shop.table.query(CHILD_CATEGORIES, catalog=catalog, parent=path, limit=limit, after=after)


def list_descendants(
    shop: Shop, path: str, limit: int, after: str | None, catalog: str = DEFAULT_CATALOG
) -> QueryPage[Category]:
    """A8c: all categories below a path, each before those in it; nothing else is read. Anybody may see them."""
    return shop.table.query(DESCENDANT_CATEGORIES, catalog=catalog, path=path, limit=limit, after=after)
