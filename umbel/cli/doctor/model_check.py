"""The model endpoint: reachable, willing, and serving the models that agents name."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from providers.contract import Endpoint
from providers.demo_faults import is_demo_model
from providers.detect import find_local_model
from providers.profiles import DEFAULT, default_wire, profile_for
from tasks.runtime import model_endpoint
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, ok, problem, warning
from umbel.settings import Settings
from umbel.settings_faults import did_you_mean, without_password

_SECONDS: Final = 5.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SHOWN: Final = 5
_LISTS_OTHER_NAMES: Final = ".azure.com"
"""There a request names a deployment, and the list names what could be deployed."""


class _Model(BaseModel):
    id: str


class _Listed(BaseModel):
    """What every server gives at least; vendors add fields."""

    data: list[_Model]


def look_at_model(context: Context) -> Finding:
    """What GET /models answers to our key."""
    settings = context.settings
    if settings.model_base_url is None and settings.api_key is None:
        return _without_endpoint()
    endpoint = model_endpoint(settings)
    where = f"{without_password(endpoint.base_url)} ({_kind(endpoint.base_url)})"
    wanted = _wanted_models(settings)
    facts: dict[str, object] = {
        "base_url": endpoint.base_url,
        "wire": _wire(endpoint.base_url),
        "models": wanted,
    }
    try:
        response = _list_models(endpoint)
    except httpx2.HTTPError as error:
        return _unreachable(where, error)
    except (httpx2.InvalidURL, ValueError) as error:
        remedy = "Correct UMBEL_MODEL_BASE_URL, such as https://api.openai.com/v1."
        return problem("model", f"{where} is no address: {error}", remedy)
    if (
        refusal := _refusal(where, response.status_code, has_key=bool(endpoint.api_key))
    ) is not None:
        return refusal
    return _served(where, _ids(response.text), wanted, facts)


def _without_endpoint() -> Finding:
    local = find_local_model()
    remedy = "Set OPENAI_API_KEY, or UMBEL_MODEL_BASE_URL, and UMBEL_MODEL."
    if local is None:
        found = "none is set; `umbel run` and `umbel up` use the demo, a script and no AI"
        return warning("model", found, remedy)
    found = (
        f"none is set; `umbel run` and `umbel up` use {local.model} of {local.endpoint.name}, "
        f"found at {local.endpoint.base_url}"
    )
    return warning("model", found, remedy)


def _wanted_models(settings: Settings) -> list[str]:
    named = [settings.model, *(agent.model for agent in settings.agents.values())]
    return list(dict.fromkeys(name for name in named if name is not None))


def _kind(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    known = profile_for(base_url) != DEFAULT
    return f"{_wire(base_url)} wire, {f'profile of {host}' if known else 'default profile'}"


def _wire(base_url: str) -> str:
    return {"responses": "Responses", "chat": "Chat Completions"}[default_wire(base_url)]


def _list_models(endpoint: Endpoint) -> httpx2.Response:
    headers = {"Accept": "application/json"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    # a proxy of the environment must not be asked for this machine
    is_here = urlsplit(endpoint.base_url).hostname in _LOOPBACK
    with httpx2.Client(timeout=_SECONDS, trust_env=not is_here) as client:
        return client.get(f"{endpoint.base_url.rstrip('/')}/models", headers=headers)


def _unreachable(where: str, error: httpx2.HTTPError) -> Finding:
    said = str(error) or type(error).__name__
    if "certificate" in said.lower() or "ssl" in said.lower():
        return problem(
            "model",
            f"{where}: TLS failed: {said}",
            "Correct the server's certificate, or set SSL_CERT_FILE to the authority that signed "
            "it; http:// instead of https:// if it speaks no TLS.",
        )
    remedy = "Start the model server, or correct UMBEL_MODEL_BASE_URL."
    return problem("model", f"{where} cannot be reached: {said}", remedy)


def _refusal(where: str, status: int, *, has_key: bool) -> Finding | None:
    """What a status means that is no list of models; None for 200."""
    if status == 200:
        return None
    found = f"{where} answers {status}"
    if status in (401, 403):
        what = "refuses the key" if has_key else "wants a key"
        remedy = "Set OPENAI_API_KEY or UMBEL_API_KEY to a key that this endpoint accepts."
        return problem("model", f"{where} {what} ({status})", remedy)
    if status in (404, 405):
        remedy = (
            "If the address is right (it usually ends with /v1) nothing is to do: some servers "
            "list no models. Else correct UMBEL_MODEL_BASE_URL."
        )
        return warning("model", f"{found}: no list of models there", remedy)
    if status == 429:
        return warning("model", f"{found}: too many requests", "Wait, or raise your quota there.")
    if status < 500:
        remedy = "Correct UMBEL_MODEL_BASE_URL; redirects are not followed."
        return problem("model", found, remedy)
    return problem("model", found, "Look at the model server's log, or wait until it is well.")


def _ids(body: str) -> list[str] | None:
    """The listed names; None: the answer is no list of models."""
    try:
        return [model.id for model in _Listed.model_validate_json(body).data]
    except ValidationError:
        return None


def _served(
    where: str, ids: list[str] | None, wanted: Sequence[str], facts: dict[str, object]
) -> Finding:
    if ids is None:
        remedy = "Correct UMBEL_MODEL_BASE_URL: what answers there is no model server."
        return problem("model", f"{where} answers something else", remedy, **facts)
    if not wanted:
        offered = ", ".join(ids[:_SHOWN]) or "none"
        return problem(
            "model",
            f"{where}: no model is named",
            f"Set UMBEL_MODEL, to one of: {offered}.",
            **facts,
        )
    missing = [name for name in wanted if name not in ids]
    if missing and ids:
        offered = f"{', '.join(ids[:_SHOWN])}{' …' if len(ids) > _SHOWN else ''}"
        kind = warning if _LISTS_OTHER_NAMES in where else problem
        return kind(
            "model",
            f"{where} has no model {', '.join(map(repr, missing))}",
            f"Set UMBEL_MODEL, or the agent's model in umbel.toml, to one of: {offered}."
            f"{did_you_mean(missing[0], ids)}",
            **facts,
        )
    if all(is_demo_model(name) for name in wanted):
        return ok("model", f"the demo, a script and no AI, at {where}", **facts)
    return ok("model", f"{', '.join(wanted)} at {where}", **facts)
