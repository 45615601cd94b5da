#!/bin/sh
# Prepare the database for memdb: extensions, roles, and the account of the service.
#
# Runs once, when the data directory is new, as the superuser. Also by hand: the address of the
# server and the superuser come from PGHOST, PGPORT, PGUSER as psql reads them, and
#   POSTGRES_DB      the database (default memdb), which exists
#   MEMDB_PASSWORD   the password of memdb_app, the account of the service
# Safe to repeat. `memdb migrate`, run by the superuser, then installs the schema.
set -eu

: "${MEMDB_PASSWORD:?the password of the account memdb_app}"

psql --no-psqlrc --set=ON_ERROR_STOP=1 --quiet \
  --username "${PGUSER:-${POSTGRES_USER:-postgres}}" --dbname "${POSTGRES_DB:-memdb}" <<'SQL'
create extension if not exists vector;

-- What memdb works without is created where the server has it.
select format('create extension if not exists %I', a.name)
  from pg_available_extensions a
 where a.name = 'age'
    or a.name = 'pg_cron'
   and current_setting('shared_preload_libraries') ~ '\mpg_cron\M'
   and current_setting('cron.database_name', true) = current_database()
\gexec

-- Who is no superuser cannot load AGE; sessions of this database have it from the start.
select format('alter database %I set session_preload_libraries = %L', current_database(), 'age')
  from pg_extension e where e.extname = 'age'
\gexec

-- The groups memdb grants its rights to, as `memdb migrate` would make them.
select format('create role %I nologin', g.name)
  from unnest('{memdb_owner,memdb_reader,memdb_writer,memdb_operator,memdb_service}'::text[]) g (name)
 where not exists (select from pg_roles r where r.rolname = g.name)
\gexec
grant memdb_reader to memdb_writer;
grant memdb_writer to memdb_operator;

-- The account of the service. Each request takes the part its key gives it, reader, writer or operator;
-- the account owns nothing and changes no schema.
select 'create role memdb_app login'
 where not exists (select from pg_roles r where r.rolname = 'memdb_app')
\gexec
\getenv password MEMDB_PASSWORD
alter role memdb_app password :'password';
grant memdb_service, memdb_operator to memdb_app;

-- So that it can hand its jobs over: memdb jobs cron.
select 'grant usage on schema cron to memdb_app'
  from pg_extension e where e.extname = 'pg_cron'
\gexec
SQL
