-- The human inbox: what a machine should not decide alone.

-- request_reviews: put questions about memories to a person.
--
-- p_items: array of {kind, memory_id, version, other_memory_id, other_version, event_id, question,
-- details, confidence}. kind is conflict (both cannot be true; other_memory_id is the older side),
-- uncertain or stale. A question that is open already, between the same memories and of the same
-- kind, is not put again. Returns one row per item: its review and whether it is new.
-- Raises MD001, MD103, MD104, MD301, MD302.
create or replace function memdb.request_reviews (
  p_tenant integer,
  p_items  jsonb
)
  returns table (ordinal integer, review_id bigint, is_new boolean)
  language plpgsql volatile security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_item   record;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_items,
    array['kind', 'memory_id', 'version', 'other_memory_id', 'other_version', 'event_id', 'question', 'details', 'confidence'],
    array['kind', 'memory_id', 'version', 'question']);
  perform memdb._check_versions(p_tenant, p_items);
  perform memdb._check_versions(p_tenant, (
    select coalesce(jsonb_agg(jsonb_build_object('memory_id', i.item -> 'other_memory_id', 'version', i.item -> 'other_version')
                              order by i.place), '[]')
      from jsonb_array_elements(p_items) with ordinality i (item, place)));
  for v_item in
    select r.*, m.namespace_id
      from rows from (jsonb_to_recordset(p_items) as (
             kind text, memory_id bigint, version integer, other_memory_id bigint, other_version integer, event_id bigint,
             question text, details jsonb, confidence real))
           with ordinality as r (kind, memory_id, version, other_memory_id, other_version, event_id, question, details, confidence, place)
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = r.memory_id
     order by least(r.memory_id, r.other_memory_id), greatest(r.memory_id, r.other_memory_id), r.place
  loop
    ordinal := v_item.place - 1;
    if v_item.event_id is not null and not memdb._is_readable_event(p_tenant, v_item.event_id) then
      perform memdb._raise('MD104', 'no such event', jsonb_build_object('index', ordinal, 'field', 'event_id'));
    end if;
    insert into memdb.review_item as i (tenant_id, namespace_id, kind, memory_id, version, other_memory_id, other_version, event_id,
                                        question, details, confidence, recorded_at)
      values (p_tenant, v_item.namespace_id, v_item.kind, v_item.memory_id, v_item.version, v_item.other_memory_id,
              v_item.other_version, v_item.event_id, left(v_item.question, 4096), coalesce(v_item.details, '{}'),
              v_item.confidence, memdb.current_time())
      on conflict do nothing
      returning i.review_id into review_id;
    is_new := found;
    if not is_new then
      select i.review_id into review_id
        from memdb.review_item i
       where i.tenant_id = p_tenant and i.state = 'open' and i.kind = v_item.kind
         and least(i.memory_id, i.other_memory_id) = least(v_item.memory_id, v_item.other_memory_id)
         and greatest(i.memory_id, i.other_memory_id) = greatest(v_item.memory_id, v_item.other_memory_id);
    end if;
    return next;
  end loop;
exception
  when foreign_key_violation then
    perform memdb._raise('MD104', 'no such event', jsonb_build_object('field', 'event_id'));
  when check_violation or invalid_text_representation or numeric_value_out_of_range then
    perform memdb._raise('MD001', 'a review is of kind conflict (between two memories), uncertain or stale',
      jsonb_build_object('field', 'kind'));
end $$;
comment on function memdb.request_reviews (integer, jsonb) is 'Put questions about memories to a person.';

-- review_items: the questions put to people, oldest first.
--
-- p_state open or decided, null for both; p_kinds null for all; p_limit 1 to 1,000 after review
-- p_after. text and other_text are the versions in question. Only namespaces the caller may read.
create or replace function memdb.review_items (
  p_tenant integer,
  p_state  text    default 'open',
  p_kinds  text[]  default null,
  p_after  bigint  default 0,
  p_limit  integer default 50
)
  returns table (
    review_id bigint, kind text, namespace text, state text, question text, memory_id bigint, version integer, text text,
    other_memory_id bigint, other_version integer, other_text text, event_id bigint, details jsonb, confidence real,
    decision text, decided_by text, decided_at timestamptz, recorded_at timestamptz)
  language sql stable rows 50
begin atomic
  select i.review_id, i.kind, n.path, i.state, i.question, i.memory_id, i.version, v.text, i.other_memory_id, i.other_version,
         o.text, i.event_id, i.details, i.confidence, i.decision, i.decided_by, i.decided_at, i.recorded_at
    from memdb.review_item i
    join memdb.namespace n on n.tenant_id = i.tenant_id and n.namespace_id = i.namespace_id
    join memdb.shown_memory_version v on v.tenant_id = i.tenant_id and v.memory_id = i.memory_id and v.version = i.version
    left join memdb.memory_version o
      on o.tenant_id = i.tenant_id and o.memory_id = i.other_memory_id and o.version = i.other_version
   where i.tenant_id = p_tenant and i.review_id > p_after and (p_state is null or i.state = p_state)
     and (p_kinds is null or i.kind = any (p_kinds))
     and (not (select memdb._is_erasing()) or not memdb._is_hidden(p_tenant, 'memory', i.other_memory_id))
   order by i.review_id
   limit least(greatest(p_limit, 1), 1000);
end;
comment on function memdb.review_items (integer, text, text[], bigint, integer) is 'The questions put to people, oldest first.';
