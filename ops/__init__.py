"""The operator tools. They work on a shop from outside, with the functions' own code and rules."""
