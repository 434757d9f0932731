"""A model of the deployed shop under load: which limit is met first, and at how many orders a second."""
