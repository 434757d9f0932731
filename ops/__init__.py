"""The operator tools: commands that a person runs to inspect and repair the shop.

They work on a deployed or local shop, and use the same code and rules as the Lambda functions.
"""
