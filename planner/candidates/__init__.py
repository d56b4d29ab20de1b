"""What could be deployed: templates and their operating points."""
