"""Requests through replicas: who meets both deadlines, and how sure we are."""
