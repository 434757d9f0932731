"""Product alerts: send a mail to each customer who follows a product, if the customer's settings allow it."""
