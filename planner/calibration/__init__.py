"""Curves from measurements, and how good they are on measurements not seen."""
