"""The local shop: the synthesized stack and the real handlers on a laptop, without Docker or an AWS account."""
