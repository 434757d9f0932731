"""This package declares the shop's data model as data: entities, keys, access patterns, states, copies, changes, events
and reactions. It sends no requests."""
