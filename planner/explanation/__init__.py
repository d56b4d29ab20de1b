"""Why this plan, and why not another."""
