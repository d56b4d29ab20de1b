"""From scenario to plan: candidates, program, verification, refinement, proof."""
