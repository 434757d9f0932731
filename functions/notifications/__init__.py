"""Order notifications: send the customer a mail about each event of an order, if the customer's settings allow it."""
