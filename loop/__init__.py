"""Pure decisions: no I/O, no clock, no Celery, Redis or SQL. `decide()` is the loop."""
