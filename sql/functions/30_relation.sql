-- Relations: how memories hang together, and walking along them.
--
-- Three kinds of ties. Soft edges are stored here and fell nothing. Hard premises are in
-- premise, written with the memory they carry. Turns of one session are not stored at all:
-- they are an index range of (session, sequence).

-- _edge_flaw: the field of an edge that is out of range; null where all are sound.
create or replace function memdb._edge_flaw (
  p_from bigint, p_to bigint, p_relation text, p_weight real, p_confidence real, p_origin text
)
  returns text
  language sql immutable parallel safe
begin atomic
  select case
    when p_from = p_to then 'to_memory_id'
    when p_relation not in ('premise', 'cause', 'refines', 'opposes', 'parallel', 'next') then 'relation'
    when not (p_weight > 0 and p_weight <= 1) then 'weight'
    when not (p_confidence >= 0 and p_confidence <= 1) then 'confidence'
    when p_origin not in ('caller', 'rule', 'model') then 'origin' end;
end;
comment on function memdb._edge_flaw (bigint, bigint, text, real, real, text) is 'The field of an edge that is out of range; null where all are sound.';

-- _edges_of: a checked batch of edge objects as rows to be, with the defaults filled in, in their order.
--
-- Raises MD001 with index and field for a wrong type, an unknown word or a value out of range.
create or replace function memdb._edges_of (p_tenant integer, p_edges jsonb)
  returns memdb.edge[]
  language plpgsql volatile
as $$
declare
  v_edges memdb.edge[];
  v_edge  memdb.edge;
  v_item  jsonb;
  v_index integer := -1;
  v_field text;
begin
  for v_item in select i.item from jsonb_array_elements(p_edges) i (item) loop
    v_index               := v_index + 1;
    v_edge.tenant_id      := p_tenant;
    v_edge.from_memory_id := v_item ->> 'from_memory_id';
    v_edge.to_memory_id   := v_item ->> 'to_memory_id';
    v_edge.relation       := v_item ->> 'relation';
    v_edge.weight         := coalesce(v_item ->> 'weight', '1');
    v_edge.confidence     := coalesce(v_item ->> 'confidence', '1');
    v_edge.origin         := coalesce(v_item ->> 'origin', 'caller');
    v_edge.event_id       := v_item ->> 'event_id';
    v_field := memdb._edge_flaw(v_edge.from_memory_id, v_edge.to_memory_id, v_edge.relation, v_edge.weight, v_edge.confidence,
      v_edge.origin);
    if v_field is not null then
      perform memdb._raise('MD001', format('field "%s" is out of range', v_field),
        jsonb_build_object('index', v_index, 'field', v_field),
        'An edge joins two different memories; relation is premise, cause, refines, opposes, parallel or next; '
        'weight is above 0 up to 1; confidence is 0 to 1; origin is caller, rule or model.');
    end if;
    v_edges[v_index + 1] := v_edge;
  end loop;
  return coalesce(v_edges, '{}');
exception when invalid_text_representation or numeric_value_out_of_range then
  perform memdb._raise('MD001', sqlerrm, jsonb_build_object('index', v_index), 'A field has the wrong type.');
end $$;
comment on function memdb._edges_of (integer, jsonb) is 'A checked batch of edge objects as rows to be, with the defaults filled in, in their order.';

-- _check_edges: refuse edges between memories the caller may not see, or from one it may not write.
--
-- Raises MD103 (memory) or MD104 (causing event) with index and field: what is in another
-- tenant, or in a namespace the caller may not read, does not exist for it. MD302 where the
-- namespace of a from-memory may be read but not written. Each end is looked up once.
create or replace function memdb._check_edges (
  p_tenant integer,
  p_edges  memdb.edge[]
)
  returns void
  language plpgsql volatile
as $$
declare
  v_namespaces integer[] := memdb._readable(p_tenant, null, null);
  v_bad        record;
begin
  with ends as (
    select d.field, d.id
      from unnest(p_edges) e
      cross join lateral (values ('from_memory_id', e.from_memory_id), ('to_memory_id', e.to_memory_id),
                                 ('event_id', e.event_id)) d (field, id)
     where d.id is not null
     group by d.field, d.id
  ), missing as (
    select d.field, d.id
      from ends d
     where not case when d.field = 'event_id'
             then exists (select from memdb.shown_event v
                           where v.tenant_id = p_tenant and v.event_id = d.id
                             and (v_namespaces is null or v.namespace_id = any (v_namespaces)))
             else exists (select from memdb.shown_memory m
                           where m.tenant_id = p_tenant and m.memory_id = d.id
                             and (v_namespaces is null or m.namespace_id = any (v_namespaces))) end)
  select e.ordinality - 1 as index, g.field, g.id
    into v_bad
    from missing g
    join unnest(p_edges) with ordinality e
      on g.id = case g.field when 'from_memory_id' then e.from_memory_id when 'to_memory_id' then e.to_memory_id else e.event_id end
   order by 1, g.field
   limit 1;
  if found then
    perform memdb._raise(case when v_bad.field = 'event_id' then 'MD104' else 'MD103' end,
      case when v_bad.field = 'event_id' then 'no such event' else 'no such memory' end,
      jsonb_build_object('index', v_bad.index, 'field', v_bad.field, 'id', v_bad.id),
      'Use ids that append_events, record_memories or recall returned for this tenant.');
  end if;
  perform memdb._writable(p_tenant, n.path, null)
    from memdb.namespace n
   where n.tenant_id = p_tenant
     and n.namespace_id in (select m.namespace_id
                              from (select distinct e.from_memory_id from unnest(p_edges) e) f
                              join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = f.from_memory_id);
end $$;
comment on function memdb._check_edges (integer, memdb.edge[]) is 'Refuse edges between memories the caller may not see, or from one it may not write.';

-- _checked_edges: a batch of edge objects as rows that may be inserted.
create or replace function memdb._checked_edges (p_tenant integer, p_edges jsonb)
  returns memdb.edge[]
  language plpgsql volatile
as $$
declare
  v_edges memdb.edge[];
begin
  perform memdb._check_items(p_edges,
    array['from_memory_id', 'to_memory_id', 'relation', 'weight', 'confidence', 'origin', 'event_id'],
    array['from_memory_id', 'to_memory_id', 'relation']);
  perform memdb._lock_truth(p_tenant, false);
  v_edges := memdb._edges_of(p_tenant, p_edges);
  perform memdb._check_edges(p_tenant, v_edges);
  return v_edges;
end $$;
comment on function memdb._checked_edges (integer, jsonb) is 'A batch of edge objects as rows that may be inserted.';

-- _insert_edges: insert checked edges; of a pair already related in that way the first edge stays. Returns the new ones.
--
-- Inserted in key order, so that two batches over the same pairs wait for each other but never in a circle.
create or replace function memdb._insert_edges (p_tenant integer, p_edges memdb.edge[])
  returns bigint[]
  language plpgsql volatile
as $$
declare
  v_now timestamptz := memdb.current_time();
  v_new bigint[];
begin
  with inserted as (
    insert into memdb.edge as e (tenant_id, namespace_id, from_memory_id, to_memory_id, relation, weight, confidence,
                                 origin, event_id, recorded_at)
      select distinct on (i.from_memory_id, i.to_memory_id, i.relation)
             p_tenant, m.namespace_id, i.from_memory_id, i.to_memory_id, i.relation, i.weight, i.confidence,
             i.origin, i.event_id, v_now
        from unnest(p_edges) with ordinality i
        join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = i.from_memory_id
       order by i.from_memory_id, i.to_memory_id, i.relation, i.ordinality
      on conflict (tenant_id, from_memory_id, to_memory_id, relation) where retired_at is null do nothing
      returning e.edge_id, e.from_memory_id, e.to_memory_id),
  noted as (
    -- The job that folds it sees that these are not isolated any more.
    insert into memdb.memory_use (tenant_id, memory_id, uses, used_at)
      select p_tenant, n.from_memory_id, 0, v_now from inserted n
      union
      select p_tenant, n.to_memory_id, 0, v_now from inserted n)
  select coalesce(array_agg(n.edge_id), '{}') into v_new from inserted n;
  return v_new;
end $$;
comment on function memdb._insert_edges (integer, memdb.edge[]) is 'Insert checked edges; of a pair already related in that way the first edge stays. Returns the new ones.';

-- relate_memories: store soft relations between memories.
--
-- p_edges: array of {from_memory_id*, to_memory_id*, relation* (premise cause refines opposes
-- parallel next), weight = 1 (above 0, at most 1), confidence = 1, origin = caller | rule |
-- model, event_id (what caused it)}. Returns per item its 0-based ordinal, the edge and
-- whether it is new; a pair already related in that way keeps its first edge unchanged. A
-- `premise` edge is soft: it fells nothing.
-- All or nothing. Raises MD001, MD003, MD103, MD104 with the index of the item, MD301, MD302.
-- Cost: two look-ups and one insert an edge.
create or replace function memdb.relate_memories (
  p_tenant integer,
  p_edges  jsonb
)
  returns table (ordinal integer, edge_id bigint, is_new boolean)
  language plpgsql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_edges memdb.edge[];
  v_new   bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  v_edges := memdb._checked_edges(p_tenant, p_edges);
  v_new := memdb._insert_edges(p_tenant, v_edges);
  -- A statement of its own: it must see the edge another transaction inserted first.
  return query
    select i.ordinality::integer - 1, e.edge_id,
           e.edge_id = any (v_new) and i.ordinality = min(i.ordinality) over (partition by e.edge_id)
      from unnest(v_edges) with ordinality i
      join memdb.edge e
        on e.tenant_id = p_tenant and e.from_memory_id = i.from_memory_id and e.to_memory_id = i.to_memory_id
       and e.relation = i.relation and e.retired_at is null
     order by i.ordinality;
end $$;
comment on function memdb.relate_memories (integer, jsonb) is 'Store soft relations between memories.';

-- _adjacent: the strongest ties of one memory: edges either way, and memories it rests on or carries.
--
-- A hard premise that supports now weighs 1 and goes by the relation name derived_from. Two
-- memories tied more than once count with their strongest tie. The cap comes after the
-- namespace filter, so that what the caller may not see takes no place. Only called by
-- definer functions that checked the caller; plain, so that the planner inlines it.
create or replace function memdb._adjacent (
  p_tenant     integer,
  p_memory     bigint,
  p_namespaces integer[],
  p_relations  text[],
  p_fan_out    integer
)
  returns table (memory_id bigint, weight real)
  language sql stable parallel safe rows 16
begin atomic
  select t.memory_id, max(t.weight)
    from (select e.to_memory_id as memory_id, e.weight
            from memdb.edge e
           where e.tenant_id = p_tenant and e.from_memory_id = p_memory and e.retired_at is null
             and (p_relations is null or e.relation = any (p_relations))
          union all
          select e.from_memory_id, e.weight
            from memdb.edge e
           where e.tenant_id = p_tenant and e.to_memory_id = p_memory and e.retired_at is null
             and (p_relations is null or e.relation = any (p_relations))
          union all
          select p.memory_id, 1
            from memdb.justification j
            join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
           where j.tenant_id = p_tenant and j.memory_id = p_memory and j.supports and p.memory_id is not null
             and (p_relations is null or 'derived_from' = any (p_relations))
          union all
          select p.conclusion_id, 1
            from memdb.premise p
           where p.tenant_id = p_tenant and p.memory_id = p_memory and p.supports
             and (p_relations is null or 'derived_from' = any (p_relations))) t
   where t.memory_id <> p_memory
     and (p_namespaces is null
          or exists (select from memdb.memory m
                      where m.tenant_id = p_tenant and m.memory_id = t.memory_id
                        and m.namespace_id = any (p_namespaces)))
   group by t.memory_id
   order by max(t.weight) desc, t.memory_id
   limit p_fan_out;
end;
comment on function memdb._adjacent (integer, bigint, integer[], text[], integer) is 'The strongest ties of one memory: edges either way, and memories it rests on or carries.';

-- _related_rows: what expand_related returns, found by walking; strongest first. Within what the caller may read.
create or replace function memdb._related_rows (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_max_hops   integer,
  p_min_weight real,
  p_relations  text[],
  p_fan_out    integer
)
  returns table (memory_id bigint, hops integer, weight real, path bigint[])
  language plpgsql stable rows 100
as $$
declare
  v_namespaces integer[] := memdb._readable(p_tenant, null, null);
begin
  return query
    with recursive walk as (
      select m.memory_id, 0 as hops, 1::real as weight, array[m.memory_id] as path
        from memdb.shown_memory m
       where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
         and (v_namespaces is null or m.namespace_id = any (v_namespaces))
      union all
      select s.memory_id, s.hops, s.weight, s.path
        from (select a.memory_id, w.hops + 1 as hops, w.weight * a.weight as weight, w.path || a.memory_id as path,
                     row_number() over (partition by a.memory_id order by w.weight * a.weight desc, w.path) as place
                from walk w
                cross join lateral memdb._adjacent(p_tenant, w.memory_id, v_namespaces, p_relations, p_fan_out) a
               where w.hops < p_max_hops
                 and w.weight * a.weight >= p_min_weight
                 and a.memory_id <> all (w.path)) s
       where s.place = 1)
    select b.memory_id, b.hops, b.weight, b.path
      from (select distinct on (w.memory_id) w.memory_id, w.hops, w.weight, w.path
              from walk w
             order by w.memory_id, w.weight desc, w.hops, w.path) b
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = b.memory_id
     order by b.weight desc, b.hops, b.memory_id;
end $$;
comment on function memdb._related_rows (integer, bigint[], integer, real, text[], integer) is 'What expand_related returns, found by walking; strongest first. Within what the caller may read.';

-- expand_related: walk outward from seed memories along relations and hard premises.
--
-- Both directions. Weight multiplies along the path; a branch stops at p_max_hops (0 to 10),
-- below p_min_weight, or where it would revisit a memory, so cycles end. From each memory only
-- its p_fan_out strongest ties (1 to 1,000) are followed. A memory reached twice keeps its
-- strongest path, of equals the shortest. Seeds (at most 1,000) come back as hop 0, weight 1.
-- p_relations: null = all, else any of premise, cause, refines, opposes, parallel, next (soft
-- edges) and derived_from (hard premises that support).
-- Returns ids and numbers only, strongest first. Never leaves the tenant and the namespaces the
-- caller may read; what it may not read, and ids that do not exist, vanish. Does not filter by
-- state of a memory; callers do. Raises MD001 for arguments out of range, MD301.
-- Each wave keeps one path per memory, so the cost is hops x memories reached x fan-out, plus
-- reading all ties of each memory met. With the cache of recalls on (switch_recall_cache), a walk that was
-- asked for before is given again while nothing of the tenant was written.
create or replace function memdb.expand_related (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_max_hops   integer default 2,
  p_min_weight real    default 0.1,
  p_relations  text[]  default null,
  p_fan_out    integer default 16
)
  returns table (memory_id bigint, hops integer, weight real, path bigint[])
  language plpgsql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_kept       jsonb;
  v_field      text := case
    when p_memory_ids is null or cardinality(p_memory_ids) > 1000 then 'memory_ids'
    when p_max_hops between 0 and 10 is not true then 'max_hops'
    when p_min_weight between 0 and 1 is not true then 'min_weight'
    when p_fan_out between 1 and 1000 is not true then 'fan_out'
    when not p_relations <@ array['premise', 'cause', 'refines', 'opposes', 'parallel', 'next', 'derived_from']
      then 'relations' end;
begin
  perform memdb._authorize(p_tenant, false);
  if v_field is not null then
    perform memdb._raise('MD001', format('argument "%s" is out of range', v_field), jsonb_build_object('field', v_field),
      'At most 1,000 memory_ids; max_hops 0 to 10; min_weight 0 to 1; fan_out 1 to 1,000; known relations.');
  end if;
  v_kept := memdb._kept_expansion(p_tenant, 'related', jsonb_build_array(p_memory_ids, p_max_hops, p_min_weight, p_relations, p_fan_out));
  if v_kept is not null then
    return query
      select k.memory_id, k.hops, k.weight, k.path
        from jsonb_to_recordset(v_kept) k (memory_id bigint, hops integer, weight real, path bigint[], place bigint)
       order by k.place;
    return;
  end if;
  return query
    select r.* from memdb._related_rows(p_tenant, p_memory_ids, p_max_hops, p_min_weight, p_relations, p_fan_out) r;
end $$;
comment on function memdb.expand_related (integer, bigint[], integer, real, text[], integer) is 'Walk outward from seed memories along relations and hard premises.';

-- neighbours: the memories of the turns around each given memory, in the same session.
--
-- p_width: how many turns before and after (0 to 50). distance is the neighbour's sequence minus
-- the memory's own: negative = earlier, 0 = drawn from the same event. A memory without a
-- session has no neighbours. Returns ids only; both ends lie in namespaces the caller may read.
-- Does not filter by state. Raises MD001, MD301. Cost: one short index range a memory.
create or replace function memdb.neighbours (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_width      integer default 2
)
  returns table (memory_id bigint, neighbour_id bigint, distance integer)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  if p_memory_ids is null or p_width between 0 and 50 is not true then
    perform memdb._raise('MD001', 'memory_ids are required, and a width of 0 to 50 turns',
      jsonb_build_object('field', case when p_memory_ids is null then 'memory_ids' else 'width' end));
  end if;
  v_namespaces := memdb._readable(p_tenant, null, null);
  return query
    select m.memory_id, n.memory_id, n.sequence - m.sequence
      from memdb.shown_memory m
      join memdb.shown_memory n
        on n.tenant_id = p_tenant and n.session_id = m.session_id
       and n.sequence between m.sequence - p_width and m.sequence + p_width
       and n.memory_id <> m.memory_id
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
       and (v_namespaces is null
            or (m.namespace_id = any (v_namespaces) and n.namespace_id = any (v_namespaces)))
     order by m.memory_id, n.sequence, n.memory_id;
end $$;
comment on function memdb.neighbours (integer, bigint[], integer) is 'The memories of the turns around each given memory, in the same session.';
