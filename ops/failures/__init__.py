"""Records and messages that failed: find them in the failure store and the dead-letter queues, and redrive them."""
