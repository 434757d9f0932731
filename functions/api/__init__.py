"""The one Lambda with routes: one module per noun; HTTP, and nothing that decides about the shop."""
