#!/bin/sh
# Runs once, when the cluster is new: a role of Umbel's own that owns its database and nothing else.
# The superuser loses its password: from now on it comes in through `docker compose exec` alone.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<'SQL'
\getenv password POSTGRES_PASSWORD
CREATE ROLE umbel LOGIN PASSWORD :'password';
CREATE DATABASE umbel OWNER umbel;
ALTER ROLE postgres PASSWORD NULL;
SQL
