"""What can be refused before anything is started: starting servers takes seconds."""

from models.runs import check_input
from tools.registry import ToolRegistry, load_registry
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
