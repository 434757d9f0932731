"""Categories: the trees in which products are listed. Each catalogue has its own tree."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from functions.api.http.context import ANONYMOUS, SignedIn, shop
from functions.api.http.fields import CatalogId, CategoryPath, Listed, Name, RequestModel, ResponseModel, examples
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY
from functions.model.errors import AlreadyExists, NotAllowed, NotEmpty, NotFound, UnknownCategory
from functions.shop import categories
from functions.shop.lists import ListRequest

router = Router()
CategoryPathQuery = Annotated[
    CategoryPath, Query(description="The path of the category, such as /kitchen/mugs/. The last slash may be omitted.")
]
ParentPathQuery = Annotated[CategoryPath, Query(description="The path of the parent category. Default: the root.")]
CatalogQuery = Annotated[CatalogId, Query(description="The id of the catalogue.")]


class NewCategory(RequestModel):
    """A new category. The parent category must exist already, or the parent must be the root.

    `path`: the full path with all parents. A path starts with a slash and has at most 1,000 characters. The slash at
    its end may be omitted, and answers contain it.
    """

    path: CategoryPath
    name: Name
    catalog: CatalogId = DEFAULT_CATALOG
    model_config = examples({"path": "/kitchen/", "name": "Kitchen"})


class CategoryChange(RequestModel):
    """The new name of a category."""

    name: Name
    model_config = examples({"name": "Kitchen and table"})


class CategoryAnswer(ResponseModel):
    """A category. `parent`: the path of the parent category, or null for the root."""

    catalog: str
    path: str
    parent: str | None
    name: str
    created_at: str
    updated_at: str
    version: int


class DeletedCategory(ResponseModel):
    """The category that was deleted."""

    catalog: str
    path: str


class CategoryWithAncestors(CategoryAnswer):
    """A category and all its ancestors, starting with the topmost ancestor."""

    ancestors: Sequence[CategoryAnswer]


@router.post(
    "/categories", status_code=201, openapi_extensions=problem_responses(NotAllowed, AlreadyExists, UnknownCategory)
)
def create_category(caller: SignedIn, new: NewCategory) -> Response[CategoryAnswer]:
    """Create a category. For staff."""
    made = categories.create_category(shop(), caller, new.path, new.name, new.catalog)
    where = {"Location": f"/categories?{urlencode({'path': made.path, 'catalog': made.catalog})}"}
    return Response(201, "application/json", CategoryAnswer.of(made), headers=where)


@router.patch("/categories", openapi_extensions=problem_responses(NotAllowed, NotFound))
def rename_category(
    caller: SignedIn, path: CategoryPathQuery, change: CategoryChange, catalog: CatalogQuery = DEFAULT_CATALOG
) -> CategoryAnswer:
    """Change a category's name. For staff."""
    return CategoryAnswer.of(categories.rename_category(shop(), caller, path, change.name, catalog))


@router.delete("/categories", openapi_extensions=problem_responses(NotAllowed, NotEmpty, NotFound))
def delete_category(
    caller: SignedIn, path: CategoryPathQuery, catalog: CatalogQuery = DEFAULT_CATALOG
) -> DeletedCategory:
    """Delete a category that has no subcategories and lists no products. For staff."""
    categories.delete_category(shop(), caller, path, catalog)
    return DeletedCategory(catalog=catalog, path=path)


@router.get("/categories", openapi_extensions=problem_responses(NotFound))
def category(path: CategoryPathQuery, catalog: CatalogQuery = DEFAULT_CATALOG) -> CategoryWithAncestors:
    """Show a category with all its ancestors. If staff has not created the root category `/`, it is not found."""
    found = categories.get_category(shop(), path, catalog)
    above = [CategoryAnswer.of(one) for one in categories.list_ancestors(shop(), path, catalog)]
    return CategoryWithAncestors(**CategoryAnswer.of(found).model_dump(), ancestors=above)


@router.get("/categories/children")
def children_of_category(
    path: ParentPathQuery = ROOT_CATEGORY,
    catalog: CatalogQuery = DEFAULT_CATALOG,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[CategoryAnswer]:
    """List the direct children of a category, sorted by path. Changes are visible after a moment."""
    request = ListRequest(ANONYMOUS, limit, cursor)
    return list_answer(categories.list_children(shop(), request, path, catalog), CategoryAnswer.of)


@router.get("/categories/descendants")
def descendants_of_category(
    path: ParentPathQuery = ROOT_CATEGORY,
    catalog: CatalogQuery = DEFAULT_CATALOG,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[CategoryAnswer]:
    """List all categories below a path. Each category comes before its children."""
    request = ListRequest(ANONYMOUS, limit, cursor)
    return list_answer(categories.list_descendants(shop(), request, path, catalog), CategoryAnswer.of)
