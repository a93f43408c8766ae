"""How a database gets from empty to today's tables, one revision after the other (Alembic)."""
