"""Categories: the tree of a catalogue, up and down, however deep and wide it is."""

import pytest

from functions.model.entities import Category
from functions.model.errors import AlreadyExists, NotEmpty, NotFound, UnknownCategory
from functions.shop import categories, products
from functions.shop.lists import ListRequest
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, STAFF, create_stocked_product
from proof.support.samples import moment
from tests.shop.conftest import TappedShop

TREE = ("/garden/", "/kitchen/", "/kitchen/cups/", "/kitchen/mugs/", "/kitchen/mugs/blue/", "/kitchen-sinks/")


def grow(shop: ShopContext, *paths: str, catalog: str = "main") -> None:
    for path in paths:
        categories.create_category(shop, STAFF, path, f"Name of {path}", catalog)


def paths(found: tuple[Category, ...]) -> list[str]:
    return [category.path for category in found]


def children(shop: ShopContext, path: str, catalog: str = "main") -> list[str]:
    page = categories.list_children(shop, ListRequest(ANN, 100), path, catalog)
    assert page.cursor is None
    return paths(page.items)


def descendants(shop: ShopContext, path: str, catalog: str = "main") -> list[str]:
    page = categories.list_descendants(shop, ListRequest(ANN, 100), path, catalog)
    assert page.cursor is None
    return paths(page.items)


# ancestors and children -----------------------------------------------------------------------------------------------
def test_children_are_just_below_and_descendants_all_below_also_of_the_root_which_needs_no_item(
    shop: ShopContext,
) -> None:
    grow(shop, *TREE)
    assert children(shop, "/") == ["/garden/", "/kitchen-sinks/", "/kitchen/"]
    assert children(shop, "/kitchen/") == ["/kitchen/cups/", "/kitchen/mugs/"]
    assert children(shop, "/kitchen/mugs/blue/") == children(shop, "/nothing/") == []
    assert descendants(shop, "/") == sorted(TREE)
    assert descendants(shop, "/kitchen/") == ["/kitchen/cups/", "/kitchen/mugs/", "/kitchen/mugs/blue/"]
    assert descendants(shop, "/kitchen/mugs/blue/") == descendants(shop, "/nothing/") == []
    with pytest.raises(NotFound):
        categories.get_category(shop, "/")


def test_the_ancestors_of_the_root_are_none_and_nothing_is_asked(shop: TappedShop) -> None:
    grow(shop, "/")
    shop.wire.clear()
    assert categories.list_ancestors(shop, "/") == ()
    assert shop.wire.operations == []


# new and changed categories -------------------------------------------------------------------------------------------
def test_a_category_is_made_where_its_parent_is_in_one_transaction(shop: TappedShop) -> None:
    made = categories.create_category(shop, STAFF, "/kitchen/", "Kitchen")
    assert shop.wire.operations == ["PutItem"], "the root category need not exist"
    shop.wire.clear()
    below = categories.create_category(shop, STAFF, "/kitchen/mugs/", "Mugs")
    assert shop.wire.operations == ["TransactWriteItems"]
    assert categories.get_category(shop, "/kitchen/") == made
    assert (below.parent, below.name, below.created_at, below.version) == ("/kitchen/", "Mugs", moment(), 1)


def test_a_category_requires_an_existing_parent(shop: ShopContext) -> None:
    grow(shop, "/kitchen/", catalog="other")
    with pytest.raises(UnknownCategory) as refused:
        categories.create_category(shop, STAFF, "/kitchen/mugs/", "Mugs")
    assert (refused.value.field, refused.value.path) == ("path", "/kitchen/")
    assert descendants(shop, "/") == []


def test_a_category_is_made_once(shop: ShopContext) -> None:
    grow(shop, "/kitchen/", "/kitchen/mugs/")
    for path in ("/kitchen/", "/kitchen/mugs/"):
        with pytest.raises(AlreadyExists):
            categories.create_category(shop, STAFF, path, "Another")
        assert categories.get_category(shop, path).name == f"Name of {path}"


def test_the_root_may_be_given_a_name_and_is_below_nothing(shop: ShopContext) -> None:
    grow(shop, "/", "/kitchen/")
    root = categories.get_category(shop, "/")
    assert (root.name, root.parent) == ("Name of /", None)
    assert children(shop, "/") == descendants(shop, "/") == ["/kitchen/"]
    assert paths(categories.list_ancestors(shop, "/kitchen/")) == ["/"]


def test_each_catalogue_has_a_tree_of_its_own(shop: ShopContext) -> None:
    grow(shop, "/kitchen/", "/kitchen/mugs/")
    grow(shop, "/kitchen/", "/kitchen/cups/", catalog="b2b")
    assert (descendants(shop, "/kitchen/"), descendants(shop, "/kitchen/", "b2b")) == (
        ["/kitchen/mugs/"],
        ["/kitchen/cups/"],
    )
    assert paths(categories.list_ancestors(shop, "/kitchen/cups/", "b2b")) == ["/kitchen/"]
    with pytest.raises(NotFound):
        categories.get_category(shop, "/kitchen/cups/")


def test_a_category_gets_another_name_and_stays_where_it_is(shop: TappedShop) -> None:
    grow(shop, "/kitchen/", "/kitchen/mugs/")
    shop.clock.sleep(60)
    renamed = categories.rename_category(shop, STAFF, "/kitchen/", "Cooking")
    assert (renamed.name, renamed.version, renamed.updated_at) == ("Cooking", 2, moment(1))
    assert categories.get_category(shop, "/kitchen/") == renamed
    assert categories.list_children(shop, ListRequest(ANN, 10), "/").items == (renamed,)
    assert children(shop, "/kitchen/") == ["/kitchen/mugs/"]
    with pytest.raises(NotFound):
        categories.rename_category(shop, STAFF, "/garden/", "Garden")


# products -------------------------------------------------------------------------------------------------------------
def test_a_category_is_deleted_when_it_has_no_subcategories_and_lists_no_products(shop: ShopContext) -> None:
    grow(shop, "/kitchen/", "/kitchen/mugs/", "/kitchens/")
    create_stocked_product(shop, "cup", 0, category="/kitchen/mugs/")
    for path, what in (("/kitchen/", "subcategories"), ("/kitchen/mugs/", "products")):
        with pytest.raises(NotEmpty) as refused:
            categories.delete_category(shop, STAFF, path)
        assert refused.value.what == what
    products.update_product(shop, STAFF, "cup", discontinued=True)
    categories.delete_category(shop, STAFF, "/kitchen/mugs/")
    categories.delete_category(shop, STAFF, "/kitchen/")
    assert descendants(shop, "/") == ["/kitchens/"]
    with pytest.raises(NotFound):
        categories.delete_category(shop, STAFF, "/kitchen/")
    with pytest.raises(UnknownCategory):
        products.update_product(shop, STAFF, "cup", discontinued=False)
    assert (
        products.update_product(shop, STAFF, "cup", discontinued=False, category="/kitchens/").category == "/kitchens/"
    )


def test_products_of_one_category_in_two_catalogues_are_two_lists(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 3, category="/kitchen/")
    create_stocked_product(shop, "vat", 2, category="/kitchen/", catalog="b2b")
    listed = {
        catalog: [offered.product.product_id for offered in page.items]
        for catalog in ("main", "b2b", "none")
        for page in [products.list_products_in_category(shop, ListRequest(ANN, 10), "/kitchen/", catalog)]
    }
    assert listed == {"main": ["jug"], "b2b": ["vat"], "none": []}
