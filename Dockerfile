# syntax=docker/dockerfile:1
# One image for every process; docker-compose.yml says which command each one is.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# Wheels alone, no compiler: what has none for this platform fails here and not in production.
FROM python:${PYTHON}-slim AS installed
COPY --from=wheel /wheels /wheels
RUN python -m venv /opt/umbel \
 && /opt/umbel/bin/pip install --no-cache-dir --only-binary :all: "$(echo /wheels/umbel-*.whl)[web]" \
 && /opt/umbel/bin/pip uninstall --yes --quiet pip

FROM python:${PYTHON}-slim
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Umbel" \
      org.opencontainers.image.description="Durable agent loops on Celery" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
ENV PATH="/opt/umbel/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN groupadd --gid 10001 umbel \
 && useradd --uid 10001 --gid umbel --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin umbel \
 && install --directory --owner umbel --group umbel /srv/workspaces \
 && install --directory /srv/umbel
COPY --from=installed /opt/umbel /opt/umbel

# Root's and empty: Python and Celery look for modules where they start. `umbel.toml` goes here.
WORKDIR /srv/umbel
USER 10001:10001
STOPSIGNAL SIGTERM
# No entry point: the commands are the Procfile's, word for word. No health check: each process has
# one of its own in docker-compose.yml.
HEALTHCHECK NONE
CMD ["umbel", "--help"]
