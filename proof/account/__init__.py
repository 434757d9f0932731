"""`make prove`: check that the shop keeps its promises, in a throw-away stage or on this machine (docs/prove.md)."""
