"""The local shop: runs the synthesized stack and the real Lambda handlers on a laptop, without Docker or an account."""
