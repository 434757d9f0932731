"""What an operator runs on a shop, from outside: with the functions' own code, and nothing that they would not do."""
