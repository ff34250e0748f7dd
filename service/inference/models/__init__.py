"""Models that are served: their processes, queues, batches and statistics."""
