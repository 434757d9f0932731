"""The pages of documentation, and what writes those of them that follow from the model."""
