"""One reader per outside format."""
