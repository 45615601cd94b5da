-- Building the lens, switching it, and finding where it differs from the tables.

-- _prepare_age: see to it that the extension is there and memdb may use it, with the caller's own rights.
--
-- Raises MD401 where the extension is missing and cannot be created, MD402 where a right is
-- missing and cannot be granted; the hint is what an administrator must run.
create or replace function memdb._prepare_age ()
  returns void
  language plpgsql volatile
as $$
declare
  v_rights text := format('grant usage on schema ag_catalog to memdb_owner, memdb_operator; '
                          'grant create on database %I to memdb_owner;', current_database());
begin
  if not exists (select from pg_extension e where e.extname = 'age') then
    if not exists (select from pg_available_extensions a where a.name = 'age') then
      perform memdb._raise('MD401', 'the server does not have the extension age', null,
        'Install Apache AGE for this PostgreSQL; everything but Cypher works without it.');
    end if;
    begin
      create extension age;
    exception
      -- Somebody else created it between the look and the statement.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        perform memdb._raise('MD401', 'the extension age is not created, and this role may not do it', null,
          format('As an administrator, in database %I: create extension age; %s', current_database(), v_rights));
    end;
  end if;
  if not memdb._has_age_rights() then
    begin
      execute v_rights;
    exception when insufficient_privilege then null;
    end;
  end if;
  -- A grant by somebody without the right to grant may be a warning, not an error.
  if not memdb._has_age_rights() then
    perform memdb._raise('MD402', 'memdb may not use the extension age', null,
      format('As an administrator, in database %I: %s', current_database(), v_rights));
  end if;
end $$;
comment on function memdb._prepare_age () is 'See to it that the extension is there and memdb may use it, with the caller''s own rights.';

-- _has_age_rights: whether the owner may build a graph, and operators may ask it.
create or replace function memdb._has_age_rights ()
  returns boolean
  language sql stable
begin atomic
  select has_schema_privilege('memdb_owner', 'ag_catalog', 'usage') and has_schema_privilege('memdb_operator', 'ag_catalog', 'usage')
     and has_database_privilege('memdb_owner', current_database(), 'create');
end;
comment on function memdb._has_age_rights () is 'Whether the owner may build a graph, and operators may ask it.';

-- _lock_graph: keep writers of what the graph shows away until commit; readers go on.
--
-- In the order in which writers take the tables. Above read committed the rows that are read
-- after this could be older than it.
create or replace function memdb._lock_graph ()
  returns void
  language plpgsql volatile
as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform memdb._raise('MD001', 'the graph is built at read committed',
      jsonb_build_object('isolation', current_setting('transaction_isolation')),
      'Call it in a transaction of its own: begin isolation level read committed;');
  end if;
  lock table memdb.event, memdb.memory, memdb.premise, memdb.entity, memdb.mention, memdb.edge in share row exclusive mode;
end $$;
comment on function memdb._lock_graph () is 'Keep writers of what the graph shows away until commit; readers go on.';

-- _arm_graph: switch the triggers that keep the graph in step on or off; made where they are missing.
--
-- Off is disabled, not dropped: dropping a trigger would wait for every reader.
create or replace function memdb._arm_graph (p_on boolean)
  returns void
  language plpgsql volatile
as $$
declare
  v_trigger record;
begin
  for v_trigger in
    select t.name as table_name, format('%s_graph_%s', t.name, e.event) as name, e.event,
           case e.event when 'insert' then 'new table as new_rows' when 'delete' then 'old table as old_rows'
                else 'old table as old_rows new table as new_rows' end as rows
      from unnest(array['event', 'memory', 'premise', 'entity', 'mention', 'edge']) t (name)
      cross join unnest(array['insert', 'update', 'delete']) e (event)
     where e.event <> 'update' or t.name = 'edge'
  loop
    if p_on then
      execute format('create or replace trigger %I after %s on memdb.%I referencing %s for each statement execute function memdb.%I()',
        v_trigger.name, v_trigger.event, v_trigger.table_name, v_trigger.rows, '_graph_' || v_trigger.table_name);
    end if;
    if exists (select from pg_trigger g
                where g.tgrelid = format('memdb.%I', v_trigger.table_name)::regclass and g.tgname = v_trigger.name) then
      execute format('alter table memdb.%I %s trigger %I', v_trigger.table_name,
        case when p_on then 'enable' else 'disable' end, v_trigger.name);
    end if;
  end loop;
end $$;
comment on function memdb._arm_graph (boolean) is 'Switch the triggers that keep the graph in step on or off; made where they are missing.';

-- _drop_graph: drop the graph, alive or not, with or without the extension.
--
-- Raises MD206 where a schema of that name is not memdb's.
create or replace function memdb._drop_graph ()
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, memdb, pg_temp
  set client_min_messages = warning
as $$
declare
  v_owner name := (select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'memdb_graph');
begin
  if v_owner <> 'memdb_owner' then
    perform memdb._raise('MD206', 'a schema named memdb_graph exists and is not memdb''s', jsonb_build_object('owner', v_owner),
      'If it is not needed: drop it; if it is memdb''s, from a dump: alter schema memdb_graph owner to memdb_owner;');
  end if;
  -- AGE's own functions look their operators up on the search path.
  perform set_config('search_path', 'pg_catalog, ag_catalog, memdb, pg_temp', true);
  if exists (select from pg_extension e where e.extname = 'age') then
    begin
      -- Tried, not asked: AGE 1.5 has no graph_exists.
      perform ag_catalog.drop_graph('memdb_graph', true);
      return;
    exception when invalid_schema_name then null;
    end;
  end if;
  if v_owner is not null then
    drop schema memdb_graph cascade;
  end if;
end $$;
comment on function memdb._drop_graph () is 'Drop the graph, alive or not, with or without the extension.';

-- _create_graph: make the empty graph: labels, and who may read what in it.
--
-- Operators read it and nobody writes but the owner. Row security keeps a question to one tenant
-- (setting memdb.graph_tenant), so that counts are right too; a path cannot leave it, since no
-- edge crosses tenants.
create or replace function memdb._create_graph ()
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, memdb, pg_temp
  set client_min_messages = warning
as $$
declare
  v_label record;
  v_table name;
begin
  -- AGE's own functions look their operators up on the search path.
  perform set_config('search_path', 'pg_catalog, ag_catalog, memdb, pg_temp', true);
  perform ag_catalog.create_graph('memdb_graph');
  for v_label in select l.label, l.kind from memdb._graph_labels() l loop
    if v_label.kind = 'vertex' then
      execute format('select ag_catalog.create_vlabel(''memdb_graph'', %L)', v_label.label);
    else
      execute format('select ag_catalog.create_elabel(''memdb_graph'', %L)', v_label.label);
    end if;
  end loop;
  for v_table in select c.relname from pg_class c where c.relnamespace = 'memdb_graph'::regnamespace and c.relkind = 'r' loop
    execute format('alter table memdb_graph.%I enable row level security', v_table);
    execute format(
      'create policy tenant_operator on memdb_graph.%I for select to memdb_operator using (
         ag_catalog.agtype_access_operator(properties, ''"tenant_id"''::ag_catalog.agtype) operator(ag_catalog.=)
         (select nullif(current_setting(''memdb.graph_tenant'', true), '''')::ag_catalog.agtype))', v_table);
  end loop;
  grant usage on schema memdb_graph to memdb_operator;
  grant select on all tables in schema memdb_graph to memdb_operator;
end $$;
comment on function memdb._create_graph () is 'Make the empty graph: labels, and who may read what in it.';

-- _fill_label: write the vertices or edges of one label, of one tenant or (null) of all; returns how many.
create or replace function memdb._fill_label (p_tenant integer, p_label text)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_kind text := (select l.kind from memdb._graph_labels() l where l.label = p_label);
  v_ids  jsonb := '{}';
  v_rows bigint;
begin
  select jsonb_object_agg(l.label, ag_catalog._label_id('memdb_graph', l.label::name)::integer) into v_ids from memdb._graph_labels() l;
  if v_kind = 'vertex' then
    execute format(
      'insert into memdb_graph.%I (id, properties)
         select ag_catalog._graphid($2, v.id), ag_catalog.agtype_build_map(''id'', v.id, ''tenant_id'', v.tenant_id)
           from memdb._graph_vertices($1) v where v.label = %L
         on conflict do nothing', p_label, p_label)
      using p_tenant, (v_ids ->> p_label)::integer;
  else
    execute format(
      'insert into memdb_graph.%1$I (id, start_id, end_id, properties)
         select ag_catalog._graphid($2, coalesce(e.entry, nextval(%2$L))),
                ag_catalog._graphid(case e.from_label when ''Event'' then $3 else $4 end, e.from_id),
                ag_catalog._graphid(case e.to_label when ''Entity'' then $5 else $4 end, e.to_id),
                ag_catalog.agtype_build_map_nonull(''id'', e.id, ''tenant_id'', e.tenant_id)
           from memdb._graph_edges($1) e where e.label = %1$L', p_label, format('memdb_graph.%I', p_label || '_id_seq'))
      using p_tenant, (v_ids ->> p_label)::integer, (v_ids ->> 'Event')::integer, (v_ids ->> 'Memory')::integer,
            (v_ids ->> 'Entity')::integer;
  end if;
  get diagnostics v_rows = row_count;
  return v_rows;
end $$;
comment on function memdb._fill_label (integer, text) is 'Write the vertices or edges of one label, of one tenant or (null) of all; returns how many.';

-- _mark_graph: note which graph is ours, or that there is to be none.
create or replace function memdb._mark_graph (p_value text)
  returns void
  language sql volatile
begin atomic
  insert into memdb.schema_info as s (key, value) values ('graph', p_value)
    on conflict (key) do update set value = excluded.value, updated_at = now();
end;
comment on function memdb._mark_graph (text) is 'Note which graph is ours, or that there is to be none.';

-- _build_graph: build the graph anew from the tables and arm its triggers, in one transaction.
create or replace function memdb._build_graph ()
  returns table (label text, kind text, entries bigint)
  language plpgsql volatile rows 11
as $$
declare
  v_begun timestamptz := clock_timestamp();
begin
  perform memdb._lock_graph();
  perform memdb._drop_graph();
  perform memdb._create_graph();
  for label, kind in select l.label, l.kind from memdb._graph_labels() l loop
    entries := memdb._fill_label(null, label);
    execute format('analyze memdb_graph.%I', label);
    raise notice 'graph: % %: % (% s)', kind, label, entries, round(extract(epoch from clock_timestamp() - v_begun), 1);
    return next;
  end loop;
  perform memdb._arm_graph(true);
  perform memdb._mark_graph(memdb._graph_oids());
end $$;
comment on function memdb._build_graph () is 'Build the graph anew from the tables and arm its triggers, in one transaction.';

-- _rebuild_graph: build the graph anew, for an operator.
create or replace function memdb._rebuild_graph ()
  returns table (label text, kind text, entries bigint)
  language plpgsql volatile security definer rows 11
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  return query select b.label, b.kind, b.entries from memdb._build_graph() b;
end $$;
comment on function memdb._rebuild_graph () is 'Build the graph anew, for an operator.';

-- rebuild_graph: build the graph for Cypher from the tables, and keep it in step from then on.
--
-- At any time: where there is none yet, where it came out of a dump, where it differs. Creates the
-- extension age and grants what it needs if the caller may. Returns one row for each label with the
-- number of its vertices or edges; a notice tells of each as it is done. Writers wait until it is
-- done, readers do not. Operators only (MD303); MD401 without the extension, MD402 without a right,
-- MD206 where a schema memdb_graph is somebody else's, MD001 above read committed. Cost: some 5
-- microseconds a vertex or edge.
create or replace function memdb.rebuild_graph ()
  returns table (label text, kind text, entries bigint)
  language plpgsql volatile rows 11
as $$
begin
  perform memdb._require_operator();
  perform memdb._prepare_age();
  return query select b.label, b.kind, b.entries from memdb._rebuild_graph() b;
end $$;
comment on function memdb.rebuild_graph () is 'Build the graph for Cypher from the tables, and keep it in step from then on.';

-- _unbuild_graph: disarm the triggers of the graph and drop it.
create or replace function memdb._unbuild_graph ()
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  perform memdb._arm_graph(false);
  perform memdb._drop_graph();
  perform memdb._mark_graph('off');
end $$;
comment on function memdb._unbuild_graph () is 'Disarm the triggers of the graph and drop it.';

-- switch_graph: switch the graph for Cypher on or off.
--
-- On: builds it as rebuild_graph does, unless it is there and in step. Off: it is dropped, and
-- writing costs no more than before; works without the extension too, for a database that was
-- restored where there is none. Returns whether anything was done. Errors as rebuild_graph.
create or replace function memdb.switch_graph (p_on boolean)
  returns boolean
  language plpgsql volatile
as $$
begin
  perform memdb._require_operator();
  if p_on is null then
    perform memdb._raise('MD001', 'the graph is switched on or off', jsonb_build_object('field', 'on'), 'Pass true or false.');
  end if;
  if p_on and not memdb._graph_is_alive() then
    perform memdb.rebuild_graph();
  elsif not p_on and memdb._graph_is_on() then
    perform memdb._unbuild_graph();
  else
    return false;
  end if;
  return true;
end $$;
comment on function memdb.switch_graph (boolean) is 'Switch the graph for Cypher on or off.';

-- A new database that has the extension gets the graph at once, while building it costs nothing;
-- an install does not fail for it. In a database in use an operator decides.
do $$
begin
  if not exists (select from pg_extension e where e.extname = 'age')
     or exists (select from memdb.schema_info s where s.key = 'graph')
     or exists (select from memdb.event) then
    return;
  end if;
  if memdb._has_age_rights() then
    perform memdb._build_graph();
  end if;
exception when others then
  raise notice 'the graph for Cypher stays off (%); switch it on with: select memdb.switch_graph(true);', sqlerrm;
end $$;
