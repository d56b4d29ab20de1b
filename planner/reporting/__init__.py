"""Words and tables for people."""
