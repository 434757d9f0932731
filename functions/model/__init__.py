"""Declarations of the data model: item types, table, access patterns, states, copies, events and reactions.

The code in this package sends no requests to AWS.
"""
