-- Edges that come with the items of a batch of memories.
--
-- The last step of record_memories (22). All at once where all are sound, which is nearly always; edge
-- by edge where one is not, so that the error names the item.

-- _plain_edges: the edges of the items as rows to be, in order; null where one of them may be unsound.
create or replace function memdb._plain_edges (p_tenant integer, p_items memdb._memory_item[], p_places memdb._memory_place[])
  returns memdb.edge[]
  language sql volatile
begin atomic
  with edge as (
    select p.ordinal, e.place, i.namespace_id, p.memory_id, e.to_memory_id, e.relation, coalesce(e.weight, 1) as weight,
           coalesce(e.confidence, 1) as confidence, coalesce(e.origin, 'caller') as origin, e.event_id, e.given
      from unnest(p_places) p
      join (select o.ordinal, o.namespace_id, o.edges from unnest(p_items) o where o.edges <> '[]' offset 0) i
        on i.ordinal = p.ordinal
      cross join rows from (jsonb_to_recordset(i.edges) as (
                   to_memory_id bigint, relation text, weight real, confidence real, origin text, event_id bigint),
                   jsonb_array_elements(i.edges)) with ordinality as e (
                   to_memory_id, relation, weight, confidence, origin, event_id, given, place))
  select case when coalesce(bool_and(
             e.to_memory_id is not null and e.relation is not null
             and e.given - array['to_memory_id', 'relation', 'weight', 'confidence', 'origin', 'event_id'] = '{}'
             and memdb._edge_flaw(e.memory_id, e.to_memory_id, e.relation, e.weight, e.confidence, e.origin) is null), true)
           then coalesce(array_agg(row(p_tenant, null, e.namespace_id, e.memory_id, e.to_memory_id, e.relation, e.weight,
                  e.confidence, e.origin, e.event_id, null, null)::memdb.edge order by e.ordinal, e.place), '{}') end
    from edge e;
end;
comment on function memdb._plain_edges (integer, memdb._memory_item[], memdb._memory_place[]) is 'The edges of the items as rows to be, in order; null where one of them may be unsound.';

-- _insert_first_edges: insert checked edges from memories that this transaction has just made, and note the ties.
--
-- Nobody else can have related them yet, so no conflict is looked for. namespace_id is filled in; of
-- a pair related twice in one way the first edge counts.
create or replace function memdb._insert_first_edges (p_tenant integer, p_edges memdb.edge[])
  returns void
  language plpgsql volatile
as $$
declare
  v_now timestamptz := memdb.current_time();
begin
  insert into memdb.edge (tenant_id, namespace_id, from_memory_id, to_memory_id, relation, weight, confidence, origin, event_id,
                          recorded_at)
    select distinct on (i.from_memory_id, i.to_memory_id, i.relation)
           p_tenant, i.namespace_id, i.from_memory_id, i.to_memory_id, i.relation, i.weight, i.confidence, i.origin, i.event_id,
           v_now
      from unnest(p_edges) with ordinality i
     order by i.from_memory_id, i.to_memory_id, i.relation, i.ordinality;
  insert into memdb.memory_use (tenant_id, memory_id, uses, used_at)
    select p_tenant, n.id, 0, v_now
      from (select i.from_memory_id from unnest(p_edges) i union select i.to_memory_id from unnest(p_edges) i) n (id);
end $$;
comment on function memdb._insert_first_edges (integer, memdb.edge[]) is 'Insert checked edges from memories that this transaction has just made, and note the ties.';

-- _write_plain_edges: store the edges of a batch in one go; false, and nothing stored, where one of them may be unsound.
--
-- The caller holds the truth lock and has checked that the namespaces of the items may be written.
create or replace function memdb._write_plain_edges (
  p_tenant integer,
  p_items  memdb._memory_item[],
  p_places memdb._memory_place[]
)
  returns boolean
  language plpgsql volatile
as $$
declare
  v_edges memdb.edge[];
begin
  v_edges := memdb._plain_edges(p_tenant, p_items, p_places);
  if v_edges is null or v_edges = '{}' then
    return v_edges is not null;
  end if;
  perform memdb._check_edges(p_tenant, v_edges);
  if exists (select from unnest(p_places) p where p.outcome <> 'created') then
    perform memdb._insert_edges(p_tenant, v_edges);
  else
    perform memdb._insert_first_edges(p_tenant, v_edges);
  end if;
  return true;
exception when data_exception or sqlstate 'MD103' or sqlstate 'MD104' then
  return false;
end $$;
comment on function memdb._write_plain_edges (integer, memdb._memory_item[], memdb._memory_place[]) is 'Store the edges of a batch in one go; false, and nothing stored, where one of them may be unsound.';

-- _write_edges: store the edges that came with items; an error names the item, p_ordinals goes beside the edges.
create or replace function memdb._write_edges (p_tenant integer, p_edges jsonb, p_ordinals integer[])
  returns void
  language plpgsql volatile
as $$
declare
  v_code    text;
  v_message text;
  v_detail  text;
  v_hint    text;
begin
  perform memdb._insert_edges(p_tenant, memdb._checked_edges(p_tenant, p_edges));
exception when sqlstate 'MD001' or sqlstate 'MD103' or sqlstate 'MD104' then
  get stacked diagnostics v_code = returned_sqlstate, v_message = message_text, v_detail = pg_exception_detail,
    v_hint = pg_exception_hint;
  perform memdb._raise(v_code, v_message, nullif(v_detail, '')::jsonb || jsonb_build_object(
    'index', p_ordinals[(nullif(v_detail, '')::jsonb ->> 'index')::integer + 1], 'field', 'edges'), v_hint);
end $$;
comment on function memdb._write_edges (integer, jsonb, integer[]) is 'Store the edges that came with items; an error names the item, p_ordinals goes beside the edges.';

-- _note_written: note what a batch means for how memories fade: known facts were learnt again, others got ties.
--
-- Appended and folded by a job: an update of what is known would make its writers wait for each other.
create or replace function memdb._note_written (
  p_tenant  integer,
  p_sources memdb._memory_source[],
  p_places  memdb._memory_place[],
  p_now     timestamptz
)
  returns void
  language plpgsql volatile
as $$
begin
  if exists (select from unnest(p_places) p where p.outcome = 'confirmed') then
    perform memdb._note_uses(p_tenant, array(select distinct p.memory_id from unnest(p_places) p where p.outcome = 'confirmed'), 1, p_now);
  end if;
  if exists (select from unnest(p_sources) s where s.memory_id is not null) then
    perform memdb._note_uses(p_tenant, array(
      select s.memory_id from unnest(p_sources) s where s.memory_id is not null
      union
      select p.memory_id from unnest(p_sources) s join unnest(p_places) p on p.ordinal = s.ordinal
       where s.memory_id is not null), 0, p_now);
  end if;
end $$;
comment on function memdb._note_written (integer, memdb._memory_source[], memdb._memory_place[], timestamptz) is 'Note what a batch means for how memories fade: known facts were learnt again, others got ties.';
