"""The facts of models/: accelerators, models, step laws, prices."""
