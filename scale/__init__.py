"""A simulation of the deployed shop under load: at how many orders a second it reaches which limit of AWS."""
