"""A simulation of the deployed shop under load. It finds the first limit of AWS, and the rate of orders below it."""
