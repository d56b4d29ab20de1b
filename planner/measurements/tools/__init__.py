"""One module per tool: what its files look like, what its words mean, how they convert."""
