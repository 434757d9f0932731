"""Product alerts: send a mail to each follower of a product, if their settings allow it."""
