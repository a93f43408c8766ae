"""The durable record: tables, hot statements, one store per table group.

PostgreSQL decides; everything else in Umbel is a hint. Lock order, always the same:
thread → run → calls (by position) → receipts. Whatever a hot statement must see stands in a column
of a row that it locks, because after a lock wait PostgreSQL re-reads only the locked row.
"""
