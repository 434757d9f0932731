"""Product categories: create, rename, delete and list them. Each catalogue has one tree of them.

A path such as /kitchen/mugs/ identifies a category. The root path "/" needs no item.
"""

from dataclasses import replace

from functions.dynamodb.writes import Write, check_exists, delete, put_if_absent
from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY, Category, ancestor_paths
from functions.model.errors import AlreadyExists, NotEmpty, UnknownCategory
from functions.model.patterns import CATEGORY_BY_PATH, CHILD_CATEGORIES, DESCENDANT_CATEGORIES, PRODUCTS_OF_CATEGORY
from functions.model.table import CATEGORY
from functions.shop.audit import deletion_entry
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, require_found, retries_on_conflict, save_change


def create_category(
    shop: ShopContext, caller: Caller, path: str, name: str, catalog: str = DEFAULT_CATALOG
) -> Category:
    """Create a category below an existing category or below the root path.

    The root path can be created too, to give it a name. Only staff may call this command. Raises NotAllowed,
    AlreadyExists, and UnknownCategory if the parent does not exist. Not safe to repeat: the second call raises
    AlreadyExists.
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
        CATEGORY, CATEGORY.key(catalog=catalog, path=path), condition_error=lambda found: UnknownCategory("path", path)
    )


@retries_on_conflict
def rename_category(
    shop: ShopContext, caller: Caller, path: str, name: str, catalog: str = DEFAULT_CATALOG
) -> Category:
    """Rename a category. Only staff may call it. Safe to repeat. Raises NotFound, NotAllowed."""
    caller.require_group("staff")
    before = get_category(shop, path, catalog)
    return save_change(shop, CATEGORY, before, replace(before, name=name))


@retries_on_conflict
def delete_category(shop: ShopContext, caller: Caller, path: str, catalog: str = DEFAULT_CATALOG) -> None:
    """Delete a category that has no subcategories and lists no products. Only staff may call it.

    Discontinued products do not count, because no category lists them. If a product or a subcategory is created at the
    same moment, it stays, and is still listed by its path. To repair this, create the deleted category again. Raises
    NotEmpty, NotAllowed, and NotFound, for example if an earlier call deleted the category.
    """
    caller.require_group("staff")
    found = get_category(shop, path, catalog)
    if shop.table.query(DESCENDANT_CATEGORIES, catalog=catalog, path=path, limit=1).items:
        raise NotEmpty("subcategories")
    if shop.table.query(PRODUCTS_OF_CATEGORY, catalog=catalog, offered_in=path, limit=1).items:
        raise NotEmpty("products")
    shop.table.write(delete(CATEGORY, found), *deletion_entry(shop, CATEGORY, found))


def get_category(shop: ShopContext, path: str, catalog: str = DEFAULT_CATALOG) -> Category:
    """Return a category (access pattern A8). The root path has an item only after staff create it. Raises NotFound."""
    return require_found(shop.table.get(CATEGORY_BY_PATH, catalog=catalog, path=path), "category")


def list_ancestors(shop: ShopContext, path: str, catalog: str = DEFAULT_CATALOG) -> tuple[Category, ...]:
    """Return all categories above a path, the topmost first (access pattern A8d). Anyone may call it.

    One eventually consistent BatchGetItem reads them, so a category that was created just now may be missing.
    """
    found: list[Category] = shop.table.batch_get(
        [CATEGORY.key(catalog=catalog, path=one) for one in ancestor_paths(path)]
    )
    return tuple(sorted(found, key=lambda category: len(category.path)))


def list_children(
    shop: ShopContext, request: ListRequest, path: str, catalog: str = DEFAULT_CATALOG
) -> ListPage[Category]:
    """Return the direct children of a path, sorted by path; none if it does not exist (access pattern A8b)."""
    return read_page(shop, request, CHILD_CATEGORIES, catalog=catalog, parent=path)


def list_descendants(
    shop: ShopContext, request: ListRequest, path: str, catalog: str = DEFAULT_CATALOG
) -> ListPage[Category]:
    """Return all categories below a path, each before its own children (access pattern A8c). Anyone may call it."""
    return read_page(shop, request, DESCENDANT_CATEGORIES, catalog=catalog, path=path)
