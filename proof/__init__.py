"""The proof that the shop keeps its promises: see README.md in this folder."""
