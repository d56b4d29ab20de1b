"""Where each request's time went, and which part of it a missed deadline is charged to."""
