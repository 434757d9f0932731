"""Find failed records and messages in the failure store and in the dead-letter queues, and process them again."""
