"""How long a step takes and how much memory is left: per model, accelerator, engine and degree."""
