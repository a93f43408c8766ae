"""Everything of one campaign: world, servers, workers, owners."""

import contextlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from models.database import Database
from tasks.ringing import Ringer
from tests.broker import publisher
from tests.chaos.harness.crew import Crew
from tests.chaos.harness.ledger import Ledger
from tests.chaos.harness.mutants import MUTANT
from tests.chaos.harness.outside import Outside
from tests.chaos.harness.owners import Owners
from tests.chaos.harness.script import Script
from tests.chaos.harness.servers import OWN_ROLE, Servers, running_servers
from tools.registry import load_registry

_TOOLS: Final = "tests.chaos.harness.tools"
_MUTATED_APPLICATION: Final = "tests.chaos.harness.mutated"


@dataclass(frozen=True, slots=True)
class Scene:
    """A system at work, with its ledger."""

    servers: Servers
    crew: Crew
    database: Database
    ledger: Ledger
    owners: Owners


@contextlib.contextmanager
def a_scene(
    script: Script, environment: Mapping[str, str], *, mutant: str | None = None
) -> Iterator[Scene]:
    """Everybody at work, for the block; nothing is left of it.

    Args:
        script: what the world and the owners do.
        environment: further variables of the workers.
        mutant: a fault to plant in the product, by its name in mutants.py.
    """
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(running_servers())
        ledger = Ledger()
        address = stack.enter_context(Outside(script, ledger).listening())
        variables = {
            "UMBEL_MODEL_BASE_URL": f"{address}/v1",
            "UMBEL_API_KEY": "scripted",
            "UMBEL_MODEL": "scripted",
            "UMBEL_TOOLS": _TOOLS,
            "UMBEL_CASE_COORDINATOR": address,
            "UMBEL_METRICS_ADDRESS": "off",
            **environment,
            **({MUTANT: mutant} if mutant else {}),
        }
        application = _MUTATED_APPLICATION if mutant else "umbel.server"
        database = Database(servers.place.database_url, role=OWN_ROLE, pool_size=4)
        stack.callback(database.close)
        app = publisher(servers.place)
        stack.callback(app.close)
        crew = stack.enter_context(Crew(servers.place_of_workers, variables, application))
        owners = Owners(
            database,
            Ringer(app),
            load_registry((_TOOLS,)),
            ledger,
            random.Random(f"{script.seed} owners"),
            script,
        )
        crew.take_posts()
        yield Scene(servers, crew, database, ledger, owners)
