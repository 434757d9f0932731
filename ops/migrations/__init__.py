"""The migrations of stored items. Each has a module, such as `m0001_what_it_does.py`, which defines MIGRATION.

Do not change a migration that has already run, and do not use its number again: a table stores the numbers of its
applied migrations.
"""
