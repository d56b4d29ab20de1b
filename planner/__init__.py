"""Plan LLM inference fleets: the most compliant goodput per dollar."""
