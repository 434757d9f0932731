"""What the shop is, as data: entities, keys, patterns, states, copies, changes, events and reactions. Talks to nobody."""
