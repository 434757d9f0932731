"""Categories: the tree of each catalogue, in which products are listed."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import ConfigDict

from functions.api.context import ANYBODY, SignedIn, shop
from functions.api.fields import Answer, Body, Catalog, Category, Listed, Name
from functions.api.paging import Asked, Cursor, Limit, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.entities import MAIN, ROOT
from functions.model.errors import AlreadyExists, NotAllowed, NotFound, UnknownCategory
from functions.model.patterns import A8b, A8c
from functions.shop import categories

router = Router()
Path = Annotated[Category, Query(description="A path that starts and ends with a slash, such as /kitchen/mugs/.")]
Below = Annotated[Category, Query(description="Below which path; the root if not said.")]
Of = Annotated[Catalog, Query(description="Of which catalogue.")]


class NewCategory(Body):
    """A category in one that is there already, or in the root. `path`: with all that is above it, and a slash at both
    ends, of 1,000 characters at most."""

    path: Category
    name: Name
    catalog: Catalog = MAIN
    model_config = ConfigDict(json_schema_extra={"examples": [{"path": "/kitchen/", "name": "Kitchen"}]})


class CategoryChange(Body):
    """What a category is called from now on."""

    name: Name
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Kitchen and table"}]})


class CategoryAnswer(Answer):
    """A category. `parent`: the path of the one it is in, null of the root."""

    catalog: str
    path: str
    parent: str | None
    name: str
    created_at: str
    updated_at: str
    version: int


class CategoryWithAncestors(CategoryAnswer):
    """A category, and all that are above it, from the top on."""

    ancestors: Sequence[CategoryAnswer]


@router.post("/categories", status_code=201, openapi_extensions=refuses(NotAllowed, AlreadyExists, UnknownCategory))
def create_category(caller: SignedIn, new: NewCategory) -> Response[CategoryAnswer]:
    """Make a category. For staff."""
    made = categories.create_category(shop(), caller, new.path, new.name, new.catalog)
    where = {"Location": f"/categories?{urlencode({'path': made.path, 'catalog': made.catalog})}"}
    return Response(201, "application/json", CategoryAnswer.of(made), headers=where)


@router.patch("/categories", openapi_extensions=refuses(NotAllowed, NotFound))
def rename_category(caller: SignedIn, path: Path, change: CategoryChange, catalog: Of = MAIN) -> CategoryAnswer:
    """Change a category's name. For staff."""
    return CategoryAnswer.of(categories.rename_category(shop(), caller, path, change.name, catalog))


@router.get("/categories", openapi_extensions=refuses(NotFound))
def category(path: Path, catalog: Of = MAIN) -> CategoryWithAncestors:
    """A category with all that are above it. The root is found only where it has been given a name."""
    found = categories.category(shop(), path, catalog)
    above = [CategoryAnswer.of(one) for one in categories.ancestors_of(shop(), path, catalog)]
    return CategoryWithAncestors(**CategoryAnswer.of(found).model_dump(), ancestors=above)


@router.get("/categories/children")
def children_of_category(
    path: Below = ROOT, catalog: Of = MAIN, limit: Limit = 20, cursor: Cursor = None
) -> Listed[CategoryAnswer]:
    """The categories just below a path, by path. What was made or renamed shows a moment later."""
    return page(
        Asked(ANYBODY, A8b, (catalog, path), cursor),
        lambda after: categories.children_of(shop(), path, limit, after, catalog),
        CategoryAnswer.of,
    )


@router.get("/categories/descendants")
def descendants_of_category(
    path: Below = ROOT, catalog: Of = MAIN, limit: Limit = 20, cursor: Cursor = None
) -> Listed[CategoryAnswer]:
    """All categories below a path, each before those that are in it."""
    return page(
        Asked(ANYBODY, A8c, (catalog, path), cursor),
        lambda after: categories.descendants_of(shop(), path, limit, after, catalog),
        CategoryAnswer.of,
    )
