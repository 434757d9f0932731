"""The migrations, a module each: `m0001_what_it_does.py` has a MIGRATION. What has run stays as it was."""
