"""Order notifications: send customers a mail for each order event that concerns them, if their settings allow it."""
