"""The reaction that tells customers: a mail for each event they should hear of, if their settings want it."""
