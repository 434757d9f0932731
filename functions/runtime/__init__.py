"""What every Lambda needs to run: environment, AWS clients, logs, metrics, queue batches and scheduled jobs."""
