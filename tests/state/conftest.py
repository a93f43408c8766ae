"""One database for all comparisons: nothing is ever committed to it."""

from tests.emptied_database import shared_pool, shared_url, url

__all__ = ["shared_pool", "shared_url", "url"]
