"""The Lambdas. Each module here is one Lambda: it reads the event, and calls functions/shop for the business rules."""
