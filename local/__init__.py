"""The local shop: runs the synthesized stack and the real Lambda handlers on a laptop.

It needs neither Docker nor an AWS account.
"""
