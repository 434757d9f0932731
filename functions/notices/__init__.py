"""The reaction that tells a product's followers of it: a mail to each, if their settings want it."""
