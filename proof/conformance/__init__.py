"""Facts about AWS as data, and the runners that check them on a system: the package aws-conformance.

A probe (proof/conformance/probes) says one fact, links to the page of AWS's documentation that states it, and holds the
data that shows it: settings, inputs, and what AWS must answer. A runner (proof/conformance/runners) plays probes on one
system: the model of event source mappings, an emulator, or a real AWS account. The package imports nothing of the shop
but local/event_source_mappings. README.md of this folder says how to use it.
"""

VERSION = "0.1.0"
