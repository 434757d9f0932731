"""The seller: keep the name, address, tax ids and bank that invoices show, each change as a new version."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from functions.dynamodb.writes import put_if_absent
from functions.model.entities import Address, Invoice, Seller
from functions.model.patterns import LATEST_SELLER, SELLER_BY_VERSION
from functions.model.table import SELLER
from functions.shop.shop import Caller, ShopContext, require_found, retries_on_conflict


def get_seller(shop: ShopContext, caller: Caller) -> Seller:
    """Return the latest version of the seller. Only staff may call it. Raises NotAllowed and NotFound."""
    caller.require_group("staff")
    return require_found(_get_latest_consistently(shop), "seller")


@retries_on_conflict
def replace_seller(
    shop: ShopContext, caller: Caller, address: Address, tax_ids: Sequence[str], bank: str | None = None
) -> Seller:
    """Store the next version of the seller, unless it is equal. Invoices that were issued keep theirs. Safe to repeat.

    `address`: with the name of the seller. Only staff may call it. Raises NotAllowed.
    """
    caller.require_group("staff")
    latest = _get_latest_consistently(shop)
    wanted = Seller(address=address, tax_ids=tuple(tax_ids), bank=bank, created_at=shop.now_instant())
    if latest is not None:
        if replace(wanted, created_at=latest.created_at, version=latest.version) == latest:
            return latest
        wanted = replace(wanted, version=latest.version + 1)
    shop.table.write(put_if_absent(SELLER, wanted))
    return wanted


def get_latest_seller(shop: ShopContext) -> Seller | None:
    """Return the latest version of the seller, or None (access pattern A29). Eventually consistent."""
    return next(iter(shop.table.query(LATEST_SELLER, limit=1).items), None)


def _get_latest_consistently(shop: ShopContext) -> Seller | None:
    """Return the latest version of the seller, also if `get_latest_seller` misses it (access pattern A29b)."""
    latest = get_latest_seller(shop)
    while newer := shop.table.get(SELLER_BY_VERSION, version=latest.version + 1 if latest else 1):
        latest = newer
    return latest


def get_sellers(shop: ShopContext, invoices: Iterable[Invoice]) -> Mapping[int, Seller]:
    """Return the sellers of these invoices by version: one request for each version (access pattern A29b)."""
    versions = sorted({one.seller for one in invoices if one.seller is not None})
    reads = [partial(shop.table.get, SELLER_BY_VERSION, version=version) for version in versions]
    return {found.version: found for found in shop.table.run_concurrently(reads) if found is not None}
