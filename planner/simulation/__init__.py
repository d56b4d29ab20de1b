"""Requests through replicas: who meets all deadlines, and how sure we are."""
