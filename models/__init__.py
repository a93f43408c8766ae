"""The durable record: tables, hot statements, one store per table group."""
