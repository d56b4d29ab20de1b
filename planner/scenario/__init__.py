"""The question: documents that a user writes."""
