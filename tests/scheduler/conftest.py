"""These tests share one database, emptied after each."""

from tests.emptied_database import database, make_database, shared_pool, shared_url, url

__all__ = ["database", "make_database", "shared_pool", "shared_url", "url"]
