"""The shop's own part of the conformance suite: facts about its access patterns, and the runner of the local shop.

`python -m proof.shop_probes` is `python -m proof.conformance` with the system `--laptop`.
"""
