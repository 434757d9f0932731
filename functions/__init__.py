"""Everything that is deployed: each Lambda is a module here; `shop`, `model` and `dynamodb` are what they share."""
