"""What the shop is, as data: entities, keys, patterns, states, copies, changes, events, reactions. Talks to nobody."""
