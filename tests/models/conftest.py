"""These tests share one database; those of migrations take `database_url`, one of their own."""

from tests.emptied_database import database, make_database, shared_pool, shared_url, url

__all__ = ["database", "make_database", "shared_pool", "shared_url", "url"]
