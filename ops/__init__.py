"""What an operator runs on a shop, from outside: it uses the functions' own code, and does nothing that they would not."""
