"""Celery: five-line task bodies and the functions they call."""
