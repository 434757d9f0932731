"""The runtime of every Lambda: environment variables, AWS clients, logs, metrics, queue batches and scheduled jobs."""
