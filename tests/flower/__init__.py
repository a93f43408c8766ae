"""Flower as people and strangers see it, and what events tell."""
