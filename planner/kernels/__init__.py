"""Inner loops over plain numbers. Nothing here knows what a scenario is."""
