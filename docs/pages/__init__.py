"""One module for each page that follows from the model. What is not in the model is on none of them."""
