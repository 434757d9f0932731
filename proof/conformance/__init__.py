"""Probes: facts about AWS that the product and the local shop rely on, as data, and the runners that check them.

A probe (proof/conformance/probes) says one fact, links to the page of AWS's documentation that states it, and holds the
data that shows it: settings, inputs, and what AWS must answer. A runner (proof/conformance/runners) plays probes on one
system: the model of event source mappings, the services of the local shop, moto, or a real AWS account.

`python -m proof.conformance --help` lists the runners. `make site` makes the page with the recorded results.
"""
