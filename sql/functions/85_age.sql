-- The lens: the graph of memories once more, in Apache AGE, for people who ask in Cypher.
--
-- The tables are the truth and all that recall reads; nothing in memdb needs this file. Where the
-- extension was there at the first install, or an operator switched it on, graph memdb_graph holds
-- vertices Event, Memory and Entity, edges PREMISE (from what a memory rests on to the memory), a
-- label for each soft relation, and MENTIONS (memory to entity). They carry the id of the row and
-- of its tenant and nothing else, so a word or a status can never differ here. Statement triggers
-- keep it in the same transaction; graph ids of vertices are computed from ids, without a look-up.
-- A dump does not bring a graph of AGE back alive (apache/age#2503). The mark of the graph we built
-- holds the oids of its schema and of the extension: in a restored database they are others, and
-- the triggers then let writes pass until rebuild_graph. Files 85 to 87 name ag_catalog, and only in
-- plpgsql, which looks names up when it gets there: they install without the extension.

-- _graph_oids: what tells this graph from any other: its schema and the extension it was made by.
--
-- Null where one of the two is missing. Cost: two look-ups in catalogs.
create or replace function memdb._graph_oids ()
  returns text
  language sql stable
begin atomic
  select to_regnamespace('memdb_graph')::oid || '/' || (select e.oid from pg_extension e where e.extname = 'age');
end;
comment on function memdb._graph_oids () is 'What tells this graph from any other: its schema and the extension it was made by.';

-- _graph_is_alive: whether the graph we built is there; false before a rebuild where a dump was restored.
create or replace function memdb._graph_is_alive ()
  returns boolean
  language sql stable
begin atomic
  select exists (select from memdb.schema_info s where s.key = 'graph' and s.value = memdb._graph_oids());
end;
comment on function memdb._graph_is_alive () is 'Whether the graph we built is there; false before a rebuild where a dump was restored.';

-- _graph_is_on: whether there is to be a graph, alive or not.
create or replace function memdb._graph_is_on ()
  returns boolean
  language sql stable
begin atomic
  select exists (select from memdb.schema_info s where s.key = 'graph' and s.value <> 'off');
end;
comment on function memdb._graph_is_on () is 'Whether there is to be a graph, alive or not.';

-- _graph_labels: the labels of the graph, vertices before edges.
create or replace function memdb._graph_labels ()
  returns table (label text, kind text)
  language sql immutable parallel safe rows 11
begin atomic
  select l.label, l.kind
    from (values ('Event', 'vertex'), ('Memory', 'vertex'), ('Entity', 'vertex'), ('PREMISE', 'edge'), ('CAUSE', 'edge'),
                 ('REFINES', 'edge'), ('OPPOSES', 'edge'), ('PARALLEL', 'edge'), ('NEXT', 'edge'), ('SOFT_PREMISE', 'edge'),
                 ('MENTIONS', 'edge')) l (label, kind);
end;
comment on function memdb._graph_labels () is 'The labels of the graph, vertices before edges.';

-- _graph_relation: the edge label of a soft relation.
create or replace function memdb._graph_relation (p_relation text)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_relation = 'premise' then 'SOFT_PREMISE' else upper(p_relation) end;
end;
comment on function memdb._graph_relation (text) is 'The edge label of a soft relation.';

-- _premise_entry: the number of a premise among all edges PREMISE: its place and its justification in one.
--
-- AGE has 48 bits for it, so justifications go up to 8.5 thousand million.
create or replace function memdb._premise_entry (p_justification bigint, p_ordinal smallint)
  returns bigint
  language sql immutable parallel safe
begin atomic
  select p_justification * 32768 + p_ordinal;
end;
comment on function memdb._premise_entry (bigint, smallint) is 'The number of a premise among all edges PREMISE: its place and its justification in one.';

-- _graph_vertices: every vertex the tables ask for, of one tenant or (null) of all.
create or replace function memdb._graph_vertices (p_tenant integer)
  returns table (label text, tenant_id integer, id bigint)
  language sql stable rows 1000
begin atomic
  select 'Event', e.tenant_id, e.event_id from memdb.event e where p_tenant is null or e.tenant_id = p_tenant
  union all
  select 'Memory', m.tenant_id, m.memory_id from memdb.memory m where p_tenant is null or m.tenant_id = p_tenant
  union all
  select 'Entity', n.tenant_id, n.entity_id from memdb.entity n where p_tenant is null or n.tenant_id = p_tenant;
end;
comment on function memdb._graph_vertices (integer) is 'Every vertex the tables ask for, of one tenant or (null) of all.';

-- _graph_edges: every edge the tables ask for, of one tenant or (null) of all.
--
-- entry is its number among the edges of its label, id what it shows of the row; a mention has
-- neither, and takes the next free number.
create or replace function memdb._graph_edges (p_tenant integer)
  returns table (label text, tenant_id integer, id bigint, entry bigint, from_label text, from_id bigint, to_label text, to_id bigint)
  language sql stable rows 1000
begin atomic
  select 'PREMISE', p.tenant_id, p.justification_id, memdb._premise_entry(p.justification_id, p.ordinal),
         case when p.event_id is null then 'Memory' else 'Event' end, coalesce(p.event_id, p.memory_id), 'Memory', p.conclusion_id
    from memdb.premise p where p_tenant is null or p.tenant_id = p_tenant
  union all
  select memdb._graph_relation(e.relation), e.tenant_id, e.edge_id, e.edge_id, 'Memory', e.from_memory_id, 'Memory', e.to_memory_id
    from memdb.edge e where (p_tenant is null or e.tenant_id = p_tenant) and e.retired_at is null
  union all
  select 'MENTIONS', n.tenant_id, null, null, 'Memory', n.memory_id, 'Entity', n.entity_id
    from memdb.mention n where p_tenant is null or n.tenant_id = p_tenant;
end;
comment on function memdb._graph_edges (integer) is 'Every edge the tables ask for, of one tenant or (null) of all.';

-- Triggers. Each fires once a statement, with all its rows. A vertex that is there already is left:
-- a write must not fail for what only the lens finds odd; check_consistency reports it.

-- _graph_event: keep vertices Event in step with the table.
create or replace function memdb._graph_event ()
  returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_label integer;
begin
  if not memdb._graph_is_alive() then
    return null;
  end if;
  v_label := ag_catalog._label_id('memdb_graph', 'Event');
  if tg_op = 'INSERT' then
    insert into memdb_graph."Event" (id, properties)
      select ag_catalog._graphid(v_label, n.event_id), ag_catalog.agtype_build_map('id', n.event_id, 'tenant_id', n.tenant_id)
        from new_rows n
      on conflict do nothing;
  else
    delete from memdb_graph."Event" g using old_rows o where g.id operator(ag_catalog.=) ag_catalog._graphid(v_label, o.event_id);
  end if;
  return null;
end $$;
comment on function memdb._graph_event () is 'Keep vertices Event in step with the table.';

-- _graph_memory: keep vertices Memory in step with the table.
create or replace function memdb._graph_memory ()
  returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_label integer;
begin
  if not memdb._graph_is_alive() then
    return null;
  end if;
  v_label := ag_catalog._label_id('memdb_graph', 'Memory');
  if tg_op = 'INSERT' then
    insert into memdb_graph."Memory" (id, properties)
      select ag_catalog._graphid(v_label, n.memory_id), ag_catalog.agtype_build_map('id', n.memory_id, 'tenant_id', n.tenant_id)
        from new_rows n
      on conflict do nothing;
  else
    delete from memdb_graph."Memory" g using old_rows o where g.id operator(ag_catalog.=) ag_catalog._graphid(v_label, o.memory_id);
  end if;
  return null;
end $$;
comment on function memdb._graph_memory () is 'Keep vertices Memory in step with the table.';

-- _graph_entity: keep vertices Entity in step with the table.
create or replace function memdb._graph_entity ()
  returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_label integer;
begin
  if not memdb._graph_is_alive() then
    return null;
  end if;
  v_label := ag_catalog._label_id('memdb_graph', 'Entity');
  if tg_op = 'INSERT' then
    insert into memdb_graph."Entity" (id, properties)
      select ag_catalog._graphid(v_label, n.entity_id), ag_catalog.agtype_build_map('id', n.entity_id, 'tenant_id', n.tenant_id)
        from new_rows n
      on conflict do nothing;
  else
    delete from memdb_graph."Entity" g using old_rows o where g.id operator(ag_catalog.=) ag_catalog._graphid(v_label, o.entity_id);
  end if;
  return null;
end $$;
comment on function memdb._graph_entity () is 'Keep vertices Entity in step with the table.';

-- _graph_premise: keep edges PREMISE in step with the table.
--
-- Updates move only the mark of support, which the graph does not have. An edge is found by where
-- it starts, which AGE indexes; its own id is not.
create or replace function memdb._graph_premise ()
  returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_label  integer;
  v_event  integer;
  v_memory integer;
begin
  if not memdb._graph_is_alive() then
    return null;
  end if;
  v_label  := ag_catalog._label_id('memdb_graph', 'PREMISE');
  v_event  := ag_catalog._label_id('memdb_graph', 'Event');
  v_memory := ag_catalog._label_id('memdb_graph', 'Memory');
  if tg_op = 'INSERT' then
    insert into memdb_graph."PREMISE" (id, start_id, end_id, properties)
      select ag_catalog._graphid(v_label, memdb._premise_entry(n.justification_id, n.ordinal)),
             ag_catalog._graphid(case when n.event_id is null then v_memory else v_event end, coalesce(n.event_id, n.memory_id)),
             ag_catalog._graphid(v_memory, n.conclusion_id),
             ag_catalog.agtype_build_map('id', n.justification_id, 'tenant_id', n.tenant_id)
        from new_rows n;
  else
    delete from memdb_graph."PREMISE" g using old_rows o
     where g.start_id operator(ag_catalog.=)
           ag_catalog._graphid(case when o.event_id is null then v_memory else v_event end, coalesce(o.event_id, o.memory_id))
       and g.id operator(ag_catalog.=) ag_catalog._graphid(v_label, memdb._premise_entry(o.justification_id, o.ordinal));
  end if;
  return null;
end $$;
comment on function memdb._graph_premise () is 'Keep edges PREMISE in step with the table.';

-- _graph_edge: keep the edges of soft relations in step with the table, live ones only.
create or replace function memdb._graph_edge ()
  returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_memory integer;
  v_label  text;
begin
  if not memdb._graph_is_alive() then
    return null;
  end if;
  v_memory := ag_catalog._label_id('memdb_graph', 'Memory');
  if tg_op <> 'INSERT' then
    -- Through the parent of all edges: one statement, whatever their labels.
    delete from memdb_graph._ag_label_edge g using old_rows o
     where o.retired_at is null
       and g.start_id operator(ag_catalog.=) ag_catalog._graphid(v_memory, o.from_memory_id)
       and g.id operator(ag_catalog.=)
           ag_catalog._graphid(ag_catalog._label_id('memdb_graph', memdb._graph_relation(o.relation)::name)::integer, o.edge_id);
  end if;
  if tg_op <> 'DELETE' then
    for v_label in select distinct memdb._graph_relation(n.relation) from new_rows n where n.retired_at is null loop
      execute format(
        'insert into memdb_graph.%1$I (id, start_id, end_id, properties)
           select ag_catalog._graphid(ag_catalog._label_id(''memdb_graph'', %1$L)::integer, n.edge_id),
                  ag_catalog._graphid($1, n.from_memory_id), ag_catalog._graphid($1, n.to_memory_id),
                  ag_catalog.agtype_build_map(''id'', n.edge_id, ''tenant_id'', n.tenant_id)
             from new_rows n where memdb._graph_relation(n.relation) = %1$L and n.retired_at is null', v_label)
        using v_memory;
    end loop;
  end if;
  return null;
end $$;
comment on function memdb._graph_edge () is 'Keep the edges of soft relations in step with the table, live ones only.';

-- _graph_mention: keep edges MENTIONS in step with the table.
create or replace function memdb._graph_mention ()
  returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_memory integer;
  v_entity integer;
begin
  if not memdb._graph_is_alive() then
    return null;
  end if;
  v_memory := ag_catalog._label_id('memdb_graph', 'Memory');
  v_entity := ag_catalog._label_id('memdb_graph', 'Entity');
  if tg_op = 'INSERT' then
    insert into memdb_graph."MENTIONS" (start_id, end_id, properties)
      select ag_catalog._graphid(v_memory, n.memory_id), ag_catalog._graphid(v_entity, n.entity_id),
             ag_catalog.agtype_build_map('tenant_id', n.tenant_id)
        from new_rows n;
  else
    delete from memdb_graph."MENTIONS" g using old_rows o
     where g.start_id operator(ag_catalog.=) ag_catalog._graphid(v_memory, o.memory_id)
       and g.end_id operator(ag_catalog.=) ag_catalog._graphid(v_entity, o.entity_id);
  end if;
  return null;
end $$;
comment on function memdb._graph_mention () is 'Keep edges MENTIONS in step with the table.';
