"""The shop of `make up`: the synthesized stack in processes on this machine."""
