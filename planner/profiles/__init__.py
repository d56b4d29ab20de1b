"""What a request trace is like, and which workload of a scenario is like it."""
