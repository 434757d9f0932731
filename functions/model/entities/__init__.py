"""The class of every item type in the table, one module per subject, such as orders.

Times are `Instant` (UTC text with milliseconds). Money is an integer in minor units, stored beside a `currency`. `ttl`
is in epoch seconds. Every command that writes an item raises the item's `version`.

This package exports every public name of its modules, so a new class needs no entry here.
"""

from functions.model.entities.accounts import *
from functions.model.entities.audit import *
from functions.model.entities.companies import *
from functions.model.entities.customers import *
from functions.model.entities.discounts import *
from functions.model.entities.exports import *
from functions.model.entities.imports import *
from functions.model.entities.invoices import *
from functions.model.entities.markers import *
from functions.model.entities.notifications import *
from functions.model.entities.order_copies import *
from functions.model.entities.orders import *
from functions.model.entities.payments import *
from functions.model.entities.products import *
from functions.model.entities.sellers import *
from functions.model.entities.sharding import *
from functions.model.entities.shipments import *
from functions.model.entities.shipping_methods import *
from functions.model.entities.sweeps import *
from functions.model.entities.taxes import *
from functions.model.entities.totals import *
from functions.model.entities.webhooks import *
