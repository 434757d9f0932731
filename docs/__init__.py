"""The pages of documentation, and the generator of the pages that follow from the model."""
