-- bootstrap: what must be true before the first revision runs.
--
-- Runs at the start of every install and upgrade, as the installing user, inside the
-- migration's transaction, after the lock; safe to repeat. It makes what it may make
-- (extension, roles, schema) and otherwise raises an error whose hint is the statement
-- an administrator must run. It ends as memdb_owner, with the search path every revision
-- and every function file is read under, and returns the schema pgvector lives in.

-- The server.
do $$
begin
  if current_setting('server_version_num')::integer < 160000 then
    raise exception 'memdb needs PostgreSQL 16 or newer'
      using errcode = 'MD403',
            detail  = jsonb_build_object('server_version', current_setting('server_version'))::text,
            hint    = 'Upgrade the server; memdb is tested on 17 and 18.';
  end if;
  if current_setting('server_encoding') <> 'UTF8' then
    raise exception 'memdb needs a database with encoding UTF8'
      using errcode = 'MD403',
            detail  = jsonb_build_object('encoding', current_setting('server_encoding'))::text,
            hint    = 'create database memdb encoding ''UTF8'' template template0;';
  end if;
end $$;

-- pgvector.
do $$
declare
  v_version text;
begin
  if not exists (select from pg_extension e where e.extname = 'vector') then
    begin
      create extension vector;
    exception
      -- Somebody else created it between the look and the statement.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege or invalid_schema_name then
        raise exception 'memdb needs the extension pgvector and may not create it'
          using errcode = 'MD401',
                hint    = format('As an administrator, in database %I: create extension vector;', current_database());
      when feature_not_supported or undefined_file then
        raise exception 'memdb needs the extension pgvector and the server does not have it'
          using errcode = 'MD401',
                hint    = format('Install pgvector 0.8 or newer on the server; then, in database %I: '
                                 'create extension vector;', current_database());
    end;
  end if;
  select e.extversion into v_version from pg_extension e where e.extname = 'vector';
  if string_to_array(substring(v_version from '^[0-9]+\.[0-9]+'), '.')::integer[] < array[0, 8] then
    raise exception 'memdb needs pgvector 0.8 or newer'
      using errcode = 'MD401',
            detail  = jsonb_build_object('vector_version', v_version)::text,
            hint    = format('Install pgvector 0.8 or newer on the server; then, in database %I: '
                             'alter extension vector update;', current_database());
  end if;
end $$;

-- Roles. They belong to the whole cluster, so an install into another database may be
-- creating the same ones now (the lock is per database): whoever comes second waits for
-- the first to commit, gets 42710 or 23505, and finds the role there.
do $$
declare
  v_role text;
  v_hint text := format(
    'As an administrator: create role memdb_owner nologin; create role memdb_reader nologin; '
    'create role memdb_writer nologin in role memdb_reader; '
    'create role memdb_operator nologin in role memdb_writer; '
    'create role memdb_service nologin; grant memdb_owner to %I;', current_user);
begin
  foreach v_role in array '{memdb_owner,memdb_reader,memdb_writer,memdb_operator,memdb_service}'::text[] loop
    continue when exists (select from pg_roles r where r.rolname = v_role);
    begin
      execute format('create role %I nologin', v_role);
    exception
      when duplicate_object or unique_violation then null;
    end;
  end loop;
  begin
    if not pg_has_role('memdb_writer', 'memdb_reader', 'usage') then
      grant memdb_reader to memdb_writer;
    end if;
    if not pg_has_role('memdb_operator', 'memdb_writer', 'usage') then
      grant memdb_writer to memdb_operator;
    end if;
    if not pg_has_role('memdb_owner', 'set') then
      execute format('grant memdb_owner to %I', current_user);
    end if;
  exception
    when duplicate_object or unique_violation then null;
  end;
exception
  when insufficient_privilege then
    raise exception 'memdb needs its roles and may not create or grant them'
      using errcode = 'MD402', hint = v_hint;
end $$;

-- The schema.
do $$
declare
  v_owner name := (select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'memdb');
begin
  if v_owner is null then
    create schema memdb authorization memdb_owner;
  elsif v_owner <> 'memdb_owner' then
    raise exception 'a schema named memdb exists and is not memdb''s'
      using errcode = 'MD206',
            detail  = jsonb_build_object('owner', v_owner)::text,
            hint    = format('If it is not needed: drop schema memdb; if it is: alter schema memdb rename to '
                             'other_name; or install memdb into another database than %I.', current_database());
  end if;
exception
  when insufficient_privilege then
    raise exception 'memdb may not create its schema'
      using errcode = 'MD402',
            hint    = format('As an administrator, in database %I: create schema memdb authorization memdb_owner;',
                             current_database());
end $$;

-- Whoever calls a function that compares vectors needs the schema pgvector lives in.
do $$
declare
  v_schema name := (select n.nspname
                      from pg_extension e
                      join pg_namespace n on n.oid = e.extnamespace
                     where e.extname = 'vector');
  v_role   text;
begin
  foreach v_role in array '{memdb_owner,memdb_reader,memdb_service}'::text[] loop
    continue when has_schema_privilege(v_role, v_schema, 'usage');
    begin
      execute format('grant usage on schema %I to %I', v_schema, v_role);
    exception
      when insufficient_privilege then null;
    end;
    -- A grant by somebody without the right to grant may be a warning, not an error.
    if not has_schema_privilege(v_role, v_schema, 'usage') then
      raise exception 'memdb may not use the schema pgvector lives in'
        using errcode = 'MD402',
              hint    = format('As an administrator, in database %I: grant usage on schema %I to %I with grant option;',
                               current_database(), v_schema, current_user);
    end if;
  end loop;
end $$;

-- Apache AGE, which is optional: where it is there, what the graph for Cypher needs, if it may be given.
do $$
begin
  if exists (select from pg_extension e where e.extname = 'age') then
    grant usage on schema ag_catalog to memdb_owner, memdb_operator;
    execute format('grant create on database %I to memdb_owner', current_database());
  end if;
exception
  -- switch_graph says what an administrator must run.
  when insufficient_privilege then null;
end $$;

set local role memdb_owner;

comment on schema memdb is
  'Long-term memory for agents. Its functions and views are the interface; its tables are private.';

select n.nspname as vector_schema,
       set_config('search_path', format('memdb, %I, pg_temp', n.nspname), true) as search_path
  from pg_extension e
  join pg_namespace n on n.oid = e.extnamespace
 where e.extname = 'vector';
