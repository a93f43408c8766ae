"""Alembic migrations of the durable record."""
