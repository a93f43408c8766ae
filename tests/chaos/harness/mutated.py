"""The workers' application with a fault planted: `celery -A tests.chaos.harness.mutated`."""

import os

from tests.chaos.harness.mutants import MUTANT, MUTANTS
from umbel.server import app

MUTANTS[os.environ[MUTANT]].plant()

__all__ = ["app"]
