"""Check the promises of the shop in a throw-away stage of a real account, or on this machine.

steps.py declares the steps. deployed.py has those of an account, laptop.py those of this machine, and shop_steps.py
those of both. docs/prove.md describes a run.
"""
