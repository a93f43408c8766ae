"""Runs the revisions on the connection that `models.migration` hands over.

The caller owns the transaction and the lock; there is no ini file and no second way in.
"""

from alembic import context

from models.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
