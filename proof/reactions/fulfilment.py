"""What must hold for the reaction `fulfilment`, checked by `make prove-reaction NAME=fulfilment`."""

from proof.simulation.reaction_invariants import effect_log, no_effect_without_event, nothing_lost, once, table_item

INVARIANTS = (
    once(effect_log("order_fulfilled", "OrderPaid")),
    no_effect_without_event(table_item("ORDER#{order_id}", "INVOICE#*")),
    nothing_lost(),
)
