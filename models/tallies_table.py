"""The table of counts: what all processes have counted since the database was made."""

from sqlalchemy import CheckConstraint, Column, Double, Table

from models.schema import Id, metadata

tallies = Table(
    "tallies",
    metadata,
    Column("name", Id, primary_key=True, comment="the metric, of a histogram with its part"),
    Column("labels", Id, primary_key=True, comment="JSON object with sorted keys"),
    Column("n", Double, nullable=False),
    CheckConstraint("n >= 0", name="grows"),
    comment="Sums for Prometheus: they only grow, and survive the processes that counted.",
    postgresql_with={"fillfactor": 50},
)
