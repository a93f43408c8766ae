"""One frozen `Settings`, read only where a process is put together.

A value comes from an argument, else the variable `UMBEL_NAME`, else `umbel.toml`, else the default.
Every fault is reported in one message before anything is started.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from umbel.agent_settings import AgentSettings, ModelSettings
from umbel.errors import Misconfigured
from umbel.redis_url import broker_url
from umbel.setting_kinds import (
    Count,
    Hooks,
    Level,
    LogFormat,
    Name,
    Names,
    OptionalAddress,
    Seconds,
    WebTargets,
    operating_system_user,
)
from umbel.settings_faults import Allowed, describe, misconfigured, without_password
from umbel.settings_sources import from_environment, from_file

DEFAULT_AGENT: Final = "default"

BEATS_BEFORE_DEATH: Final = 3
"""A worker may miss two beats without being taken for dead."""


class Settings(BaseSettings):
    """Everything that can be set. Build it with `load_settings`; tests may give values directly."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True
    )

    database_url: Annotated[
        str | None, Allowed("postgresql://user:password@host/database, or unset")
    ] = None
    """PostgreSQL 15 or newer; unset: `umbel run` and `umbel up` start their own."""
    redis_url: Annotated[
        str | None, Allowed("redis://host:6379/0, rediss://… or unix:///path?db=0, or unset")
    ] = None
    """Redis 7 or newer, or Valkey; unset: `umbel run` and `umbel up` start their own."""
    redis_prefix: Name = "umbel"
    """Beginning of every key in Redis, so that several systems can share one."""
    tenant: Name = "default"
    """Tenant of runs that are enqueued, and listed, by this process."""
    user: Annotated[
        str, Field(min_length=1, max_length=200), Allowed("a name of up to 200 characters")
    ] = Field(default_factory=operating_system_user)
    """Owner of runs that are enqueued by this process; unset: the operating system's user."""
    model_base_url: Annotated[
        str | None, Allowed("an http:// or https:// address such as https://api.openai.com/v1")
    ] = None
    """Where models are asked, over Chat Completions or Responses."""
    api_key: Annotated[SecretStr | None, Allowed("the key of the model endpoint, or unset")] = None
    """Key of the model endpoint; `OPENAI_API_KEY` counts when this is unset."""
    model: Annotated[str | None, Field(min_length=1), Allowed("a model name, or unset")] = None
    """Model of agents that name none."""
    tools: Names = ()
    """Modules with tools of your own, the same for whoever enqueues and for tool workers."""
    preflight: Hooks = ()
    """Your own checks of calls before they start, the same for all workers."""
    web_allow: WebTargets = ()
    """What tools may read though it is no public web server on port 80 or 443; none: nothing."""
    beat_seconds: Seconds = 3.0
    """Time between two signs of life of a worker."""
    dead_after_seconds: Annotated[
        float,
        Field(gt=0, allow_inf_nan=False),
        Allowed("a number of seconds, three times beat_seconds or more"),
    ] = 15.0
    """Silence after which a worker is dead and its work is taken over."""
    sweep_seconds: Seconds = 0.5
    """Time between two looks for work that nobody has been told of."""
    ring_after_seconds: Seconds = 5.0
    """Time after which work that was announced and not taken is announced again."""
    tool_patience_seconds: Seconds = 30.0
    """Time a call waits, at least, while no worker has its tool; then its run pauses."""
    pool_size: Count = 10
    """Database connections of one process at most."""
    step_concurrency: Count = 100
    """Steps that one step worker carries at once."""
    tool_concurrency: Count = Field(default_factory=lambda: max(8, 2 * (os.cpu_count() or 1)))
    """Processes of one tool worker; unset: twice the cores, 8 at least, fewer for `umbel run`."""
    stream_silence_seconds: Seconds = 300.0
    """A model stream without a single byte for so long is dead."""
    stream_first_event_seconds: Seconds = 600.0
    """A model may queue and read the prompt for so long before its first event."""
    stream_progress_seconds: Seconds = 90.0
    """A model stream may go on for so long without text, reasoning or calls."""
    log_level: Level = "INFO"
    """The least severe lines that workers log."""
    log_format: LogFormat = "auto"
    """How workers log: `json`, one object a line; `text`; or `auto`, text on a terminal only."""
    control_concurrency: Count = 2
    """Processes of one control worker."""
    metrics_address: OptionalAddress = "127.0.0.1:9464"
    """Where a control worker serves Prometheus metrics; `off`: nowhere."""
    flower_address: OptionalAddress = "127.0.0.1:5555"
    """Where Flower is served; `off`: `umbel up` starts none."""
    flower_auth: Annotated[SecretStr | None, Allowed("user:password, or unset")] = None
    """Who may look at Flower; unset: `umbel up` makes a password and shows it."""
    traces: bool = False
    """Send OpenTelemetry traces; where to, the standard variables `OTEL_*` say."""
    trace_content: bool = False
    """Let traces carry what people and models wrote and what tools were given."""
    agents: dict[str, AgentSettings] = Field(default_factory=dict)
    """`[agents.NAME]` tables; `default` always exists."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """`[models.NAME]` tables; an unknown model has a window of 32,000 and unknown prices."""

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library passes all five by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only given values count: `load_settings` reads the sources, to know every origin."""
        return (init_settings,)

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        scheme, separator, rest = value.partition("://")
        if separator and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
            return f"postgresql+psycopg://{rest}"
        raise ValueError(f"the scheme {scheme!r} is not PostgreSQL's" if separator else "not a URL")

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                broker_url(value)
            except Misconfigured as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("model_base_url")
    @classmethod
    def _check_model_base_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http address with a host")
        return value.rstrip("/")

    @field_validator("flower_auth")
    @classmethod
    def _check_flower_auth(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            user, _, password = value.get_secret_value().partition(":")
            if not user or not password:
                raise ValueError("not a user and a password with a colon between them")
        return value

    @field_validator("dead_after_seconds")
    @classmethod
    def _check_dead_after(cls, value: float, info: ValidationInfo) -> float:
        # A beat that is itself wrong is not there: judge by its default, to name all at once.
        beat = info.data.get("beat_seconds", cls.model_fields["beat_seconds"].default)
        if value < BEATS_BEFORE_DEATH * beat:
            raise ValueError(
                f"a worker that beats every {beat:g} s would be taken for dead too early; "
                f"give {BEATS_BEFORE_DEATH * beat:g} or more"
            )
        return value

    @field_validator("agents")
    @classmethod
    def _ensure_default_agent(cls, value: dict[str, AgentSettings]) -> dict[str, AgentSettings]:
        return {DEFAULT_AGENT: AgentSettings()} | value

    def agent(self, name: str) -> AgentSettings:
        """The agent of that name.

        Raises:
            Misconfigured: there is none.
        """
        if name not in self.agents:
            raise Misconfigured(
                f"Agent {name!r} is not configured; there is {', '.join(sorted(self.agents))}. "
                f"Add a table [agents.{name}] to umbel.toml."
            )
        return self.agents[name]

    def model_settings(self, name: str) -> ModelSettings:
        """What is known about a model; for an unknown one the defaults and no price."""
        return self.models.get(name) or ModelSettings()

    def effective(self) -> list[tuple[str, str, str]]:
        """Every setting as (name, shown value, origin); secrets are masked.

        The origin is `default`, `argument`, a variable's name, or a key and its file.
        """
        return [
            (name, _shown(getattr(self, name)), self._origin(name))
            for name in type(self).model_fields
        ]

    def with_origins(self, origins: Mapping[str, str]) -> Self:
        """These settings, remembering where each given value stood."""
        self._origins.update(origins)
        return self

    def _origin(self, name: str) -> str:
        given = "argument" if name in self.model_fields_set else "default"
        return self._origins.get(name, given)

    def __repr_args__(self) -> list[tuple[str, str]]:
        """Shown values, so that no password gets into a log or a traceback."""
        return [(name, shown) for name, shown, _ in self.effective()]


def load_settings(environment: Mapping[str, str] | None = None, /, **overrides: Any) -> Settings:
    """The settings of this process.

    Args:
        environment: instead of the process environment.
        overrides: values that win over every other source; None counts as not given.

    Raises:
        Misconfigured: lists every fault of every source.
    """
    environment = os.environ if environment is None else environment
    of_file, faults = from_file(environment)
    of_environment, more_faults = from_environment(environment, Settings.model_fields)
    given = {key: (value, "argument") for key, value in overrides.items() if value is not None}
    found = of_file | of_environment | given
    places = {key: place if place != "argument" else key for key, (_, place) in found.items()}
    try:
        settings = Settings(**{key: value for key, (value, _) in found.items()})
    except ValidationError as error:
        raise misconfigured([*faults, *more_faults, *describe(error, Settings, places)]) from None
    if faults or more_faults:
        raise misconfigured([*faults, *more_faults])
    return settings.with_origins({key: place for key, (_, place) in found.items()})


def _shown(value: object) -> str:
    match value:
        case None:
            return "not set"
        case str():
            return without_password(value)
        case tuple() | dict():
            names = cast("Iterable[object]", value)  # the checker knows no element type here
            return ", ".join(map(str, names)) or "none"
        case _:
            return str(value)
