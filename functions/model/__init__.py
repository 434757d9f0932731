"""Declarations of the data model: item types, the table, access patterns, states, copies, events and reactions.

A copy is an item that is derived from another item. A reaction is a queue of events, and the Lambda that processes the
queue. The code in this package sends no requests to AWS.
"""
