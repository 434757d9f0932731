"""The operator tools.

They work on a deployed or local shop, and use the same code and rules as the Lambda functions.
"""
