"""Whole runs on real workers, real PostgreSQL and Redis, with a scripted model server."""
