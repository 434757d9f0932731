"""The declarations of the data model: entities, the table, access patterns, states, copies, events and reactions.

This package sends no requests.
"""
