"""Rename item types, attributes and texts whose former names hid their meaning. See docs/decisions/0071."""

from functions.model.table import CAMPAIGN, CONTRIBUTION, ORDER, REDEMPTION_POOL
from ops.migration import rename_stored_names

MIGRATION = rename_stored_names(
    CONTRIBUTION,
    REDEMPTION_POOL,
    ORDER,
    CAMPAIGN,
    description="contributions, redemption pools and others have plain names",
)
