"""The data model, declared as data: entities, the table, access patterns, states, copies, events and reactions.

This package sends no requests.
"""
