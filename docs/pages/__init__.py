"""The generated pages of docs/: one module for each page. The content comes from the model and the stack."""
