"""Compute what a stage costs on AWS, from the usage of an order (usage.py) and the synthesized template (bill.py)."""
