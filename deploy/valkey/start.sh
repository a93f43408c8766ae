#!/bin/sh
# Starts Valkey with one user per file in users/. Passwords come from the environment, and what is
# written, in memory, is their SHA-256. Arguments override valkey.conf.
set -eu
umask 077
here=$(dirname "$0")
acl=${VALKEY_RUN:-/run/valkey}/users.acl

add_user() { # name, password
  printf 'user %s on #%s ' "$1" "$(printf %s "$2" | sha256sum | cut -d ' ' -f 1)"
  sed -e '/^#/d' "$here/users/$1.rules" | tr '\n' ' '
  echo
}

{
  echo 'user default off'
  add_user umbel "${VALKEY_UMBEL_PASSWORD:?set it to the password of the workers}"
  add_user flower "${VALKEY_FLOWER_PASSWORD:?set it to the password of Flower}"
} > "$acl"
unset VALKEY_UMBEL_PASSWORD VALKEY_FLOWER_PASSWORD
exec valkey-server "$here/valkey.conf" --aclfile "$acl" "$@"
