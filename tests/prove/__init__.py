"""The proof: its steps, its report and its commands in an account."""
