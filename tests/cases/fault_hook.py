"""The function behind the product's fault points in case runs: it asks the coordinator."""

from collections.abc import Mapping

from tests.cases.coordinator_client import tell


def report(point: str, facts: Mapping[str, str]) -> None:
    """Tell where this process stands; the coordinator may kill or freeze it before it answers."""
    tell("/point", {"point": point, "facts": {key: str(value) for key, value in facts.items()}})
