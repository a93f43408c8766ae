"""Seeded random chaos: a whole system is hurt, healed and judged by ledgers outside of it."""
