"""Which to deploy: a mixed-integer linear program. See docs/formulation.md."""
