"""`make prove`: check that the shop keeps its promises, in a throw-away stage of an AWS account or on this machine.

Each step checks one promise. steps.py declares all steps. deployed.py contains the steps for an AWS account, laptop.py
the steps for this machine, and shop_steps.py the steps for both. docs/prove.md describes a run.
"""
