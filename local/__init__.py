"""The local shop: runs the synthesized CDK stack and the real Lambda handlers on a laptop.

The local shop needs neither Docker nor an AWS account.
"""
