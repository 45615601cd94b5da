#!/bin/sh
# Install the extensions beside a PostgreSQL of Debian's or of the PostgreSQL project's packages.
#
# Runs as root, once, where the image is built; PG_MAJOR is the server's major version. Needs
# nothing of Docker: the same file prepares any Debian root.
set -eu

: "${PG_MAJOR:?the major version of the server, such as 18}"
export DEBIAN_FRONTEND=noninteractive

apt-get update
apt-get install --yes --no-install-recommends \
  "postgresql-$PG_MAJOR-pgvector" \
  "postgresql-$PG_MAJOR-age" \
  "postgresql-$PG_MAJOR-cron"
rm -rf /var/lib/apt/lists/*
