"""What can be refused before anything is started: starting servers takes seconds."""

from models.input_checks import check_input
from tools.registry import ToolRegistry, load_registry
from umbel.cli.places import refuse_outdated
from umbel.cli.redis_contact import greet
from umbel.settings import Settings


def checked_tools(settings: Settings, *, agent: str, request: str) -> ToolRegistry:
    """Every tool of these settings, once request, agent and the agent's tools are in order.

    Raises:
        InvalidInput: the request is empty, too long or cannot be stored.
        Misconfigured: no such agent, a module of tools that cannot be loaded, or an agent's tool
            that no module has.
    """
    check_input(request)
    wanted = settings.agent(agent).tools
    registry = load_registry(settings.tools)
    registry.select(wanted)
    return registry


def check_given_servers(settings: Settings) -> None:
    """Greet the servers that the settings name, before others are started beside them.

    Raises:
        Misconfigured: one refuses the connection, or the database is not this version's.
        Unavailable: one does not answer.
    """
    if settings.redis_url is not None:
        greet(settings.redis_url)
    if settings.database_url is not None:
        refuse_outdated(settings.database_url)
