"""The migrations of stored items, one module each, for example `m0001_what_it_does.py`. Each defines MIGRATION.

Do not change a migration that has already run, and do not use its number again: a table stores the numbers of its
applied migrations.
"""
