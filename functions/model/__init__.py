"""The shop's data model, as data: entities, keys, patterns, states, copies, changes, events, reactions. Makes no
requests."""
