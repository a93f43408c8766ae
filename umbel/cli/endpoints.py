"""Which model answers: the configured one, one that runs on this machine, or the demo."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from providers.demo import MODEL as DEMO_MODEL
from providers.demo import DemoServer
from providers.demo_faults import UnknownFault, describe, fault_of, is_demo_model
from providers.detect import find_local_model
from providers.profiles import DEFAULT_BASE_URL
from umbel.errors import Misconfigured
from umbel.settings import Settings
from umbel.settings_faults import without_password


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """An endpoint, the model to ask there, and how that came about."""

    base_url: str
    model: str
    api_key: SecretStr | None
    why: str


@contextmanager
def chosen_model(
    settings: Settings, wanted: str | None, *, demo_port: int = 0
) -> Generator[ChosenModel]:
    """The model for the block; `wanted` is the name from option, agent or settings.

    `demo_port` is where a demo listens if it can; 0: anywhere.

    Raises:
        Misconfigured: an endpoint without a model name, a name without an endpoint, or OpenAI's
            own endpoint without a key.
    """
    if is_demo_model(wanted):
        with _demo(wanted or DEMO_MODEL, demo_port) as demo:
            yield demo
        return
    if settings.model_base_url or settings.api_key:
        yield _configured(settings, wanted)
        return
    local = find_local_model()
    if local is not None:
        model, endpoint = wanted or local.model, local.endpoint
        why = f"{model} of {endpoint.name}, found running at {endpoint.base_url}"
        yield ChosenModel(endpoint.base_url, model, None, why)
        return
    if wanted is not None:
        raise Misconfigured(
            f"The model {wanted!r} has no endpoint: set OPENAI_API_KEY or UMBEL_MODEL_BASE_URL, or "
            "start a model server on this machine. No model server was found on 127.0.0.1."
        )
    with _demo(DEMO_MODEL, demo_port) as demo:
        yield demo


@contextmanager
def _demo(model: str, port: int) -> Generator[ChosenModel]:
    """The script, with the fault that `demo:FAULT` names."""
    try:
        fault = fault_of(model)
    except UnknownFault as error:
        raise Misconfigured(str(error)) from error
    why = "demo, a script and no AI; set OPENAI_API_KEY or UMBEL_MODEL_BASE_URL for a model"
    if fault is not None:
        why = f"{model}, a script and no AI that shows a fault: {dict(describe())[fault.name]}"
    with DemoServer(port=port) as server:
        yield ChosenModel(server.base_url, model, None, why)


def _configured(settings: Settings, wanted: str | None) -> ChosenModel:
    base_url = settings.model_base_url or DEFAULT_BASE_URL
    if wanted is None:
        raise Misconfigured(
            f"No model is named for {without_password(base_url)}; set UMBEL_MODEL or give --model."
        )
    # Nobody answers there without a key; other endpoints may do without one.
    if settings.api_key is None and _host(base_url) == _host(DEFAULT_BASE_URL):
        raise Misconfigured(
            f"No key is set for {without_password(base_url)}; set OPENAI_API_KEY or UMBEL_API_KEY."
        )
    why = f"{wanted} at {without_password(base_url)}"
    return ChosenModel(base_url, wanted, settings.api_key, why)


def _host(url: str) -> str | None:
    return urlsplit(url).hostname
