-- Assertions and assessments: what facts say in short, and why they were kept or dropped.
--
-- Written by the pipeline in the transaction that records its memories.

-- record_assertions: write down what memories say as subject, attribute and value, and name their rivals.
--
-- p_assertions: array of {memory_id, version, subject, attribute, value, is_single, is_negated}. The
-- assertions of a version are written once; given again they change nothing. Returns, for each item
-- whose attribute is single-valued, the other memories that hold and assert another value of it in
-- the same namespace for the same user: the caller supersedes them, or asks. Two writers of one
-- subject and attribute go one after the other until commit, so neither misses the other.
-- Raises MD001, MD103, MD301, MD302.
create or replace function memdb.record_assertions (
  p_tenant     integer,
  p_assertions jsonb
)
  returns table (ordinal integer, rival_id bigint, rival_version integer, rival_value text)
  language plpgsql volatile security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_assertions,
    array['memory_id', 'version', 'subject', 'attribute', 'value', 'is_single', 'is_negated'],
    array['memory_id', 'version', 'subject', 'attribute', 'value']);
  perform memdb._check_versions(p_tenant, p_assertions);
  -- 1835363445 ("melu"): one at a time per subject and attribute, in one order for all.
  perform pg_advisory_xact_lock(1835363445, k.key)
     from (select distinct hashtext(concat_ws(E'\x1f', p_tenant, memdb._alias(r.subject), r.attribute)) as key
             from jsonb_to_recordset(p_assertions) r (subject text, attribute text)
            order by 1) k;
  insert into memdb.assertion (tenant_id, memory_id, version, ordinal, namespace_id, user_id, subject, attribute, value,
                               is_single, is_negated)
    select p_tenant, m.memory_id, r.version, row_number() over (partition by m.memory_id, r.version order by r.place),
           m.namespace_id, m.user_id, left(memdb._alias(r.subject), 200), r.attribute, left(memdb._alias(r.value), 500),
           coalesce(r.is_single, false), coalesce(r.is_negated, false)
      from rows from (jsonb_to_recordset(p_assertions) as (
             memory_id bigint, version integer, subject text, attribute text, value text, is_single boolean, is_negated boolean))
           with ordinality as r (memory_id, version, subject, attribute, value, is_single, is_negated, place)
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = r.memory_id
    on conflict on constraint assertion_pkey do nothing;
  return query
    select r.place::integer - 1, o.memory_id, o.version, o.value
      from rows from (jsonb_to_recordset(p_assertions) as (
             memory_id bigint, version integer, subject text, attribute text, value text, is_single boolean, is_negated boolean))
           with ordinality as r (memory_id, version, subject, attribute, value, is_single, is_negated, place)
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = r.memory_id
      join memdb.assertion o
        on o.tenant_id = p_tenant and o.namespace_id = m.namespace_id and o.subject = memdb._alias(r.subject)
       and o.attribute = r.attribute and o.memory_id <> m.memory_id
       and (o.value <> memdb._alias(r.value)) = (o.is_negated = coalesce(r.is_negated, false))
      join memdb.memory other
        on other.tenant_id = p_tenant and other.memory_id = o.memory_id and other.version = o.version and other.status = 'active'
       and other.user_id is not distinct from m.user_id
     where r.is_single and not (r.is_negated and o.is_negated)
     order by r.place, o.memory_id;
exception when check_violation or invalid_text_representation or numeric_value_out_of_range then
  perform memdb._raise('MD001', 'an assertion has a subject, an attribute in snake_case and a value',
    jsonb_build_object('field', 'assertions'));
end $$;
comment on function memdb.record_assertions (integer, jsonb) is 'Write down what memories say as subject, attribute and value, and name their rivals.';

-- _check_versions: stop unless every item names a version of a memory that the caller may write about.
--
-- Raises MD103 with the item's index, MD302.
create or replace function memdb._check_versions (p_tenant integer, p_items jsonb)
  returns void
  language plpgsql volatile
as $$
declare
  v_readable integer[] := memdb._readable(p_tenant, null, null);
  v_lost     integer;
begin
  select r.place - 1 into v_lost
    from rows from (jsonb_to_recordset(p_items) as (memory_id bigint, version integer)) with ordinality as r (memory_id, version, place)
    left join memdb.memory_version v
      on v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version
     and (v_readable is null or v.namespace_id = any (v_readable))
   where r.memory_id is not null and v.memory_id is null
   order by r.place
   limit 1;
  if found then
    perform memdb._raise('MD103', 'no such memory or version', jsonb_build_object('index', v_lost));
  end if;
  perform memdb._writable(p_tenant, n.path, null)
     from (select distinct v.namespace_id
             from jsonb_to_recordset(p_items) r (memory_id bigint, version integer)
             join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version) w
     join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = w.namespace_id;
end $$;
comment on function memdb._check_versions (integer, jsonb) is 'Stop unless every item names a version of a memory that the caller may write about.';

-- record_assessments: write down why words of events were kept or dropped.
--
-- p_assessments: array of {event_id, span: [from, to), outcome, reason, importance, components,
-- confidence, memory_id, version}; outcome is that of record_memories, or dropped (then without a
-- memory). Append-only; holds places and numbers, no words. Returns how many.
-- Raises MD001, MD103, MD104, MD301, MD302.
create or replace function memdb.record_assessments (
  p_tenant      integer,
  p_assessments jsonb
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
  v_lost  integer;
  v_count integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_assessments,
    array['event_id', 'span', 'outcome', 'reason', 'importance', 'components', 'confidence', 'memory_id', 'version'],
    array['event_id', 'outcome']);
  perform memdb._check_versions(p_tenant, p_assessments);
  v_scope := memdb._namespaces_granted(p_tenant, true);
  select r.place - 1 into v_lost
    from rows from (jsonb_to_recordset(p_assessments) as (event_id bigint)) with ordinality as r (event_id, place)
    left join memdb.event e
      on e.tenant_id = p_tenant and e.event_id = r.event_id and (v_scope is null or e.namespace_id = any (v_scope))
   where e.event_id is null
   order by r.place
   limit 1;
  if found then
    perform memdb._raise('MD104', 'no such event', jsonb_build_object('index', v_lost));
  end if;
  insert into memdb.assessment (tenant_id, namespace_id, event_id, span_from, span_to, outcome, reason, importance, components,
                                confidence, memory_id, version, recorded_at)
    select p_tenant, e.namespace_id, e.event_id, (r.span ->> 0)::integer, (r.span ->> 1)::integer, r.outcome, left(r.reason, 500),
           r.importance, coalesce(r.components, '{}'), r.confidence, r.memory_id, r.version, memdb.current_time()
      from jsonb_to_recordset(p_assessments) r (
             event_id bigint, span jsonb, outcome text, reason text, importance real, components jsonb, confidence real,
             memory_id bigint, version integer)
      join memdb.event e on e.tenant_id = p_tenant and e.event_id = r.event_id;
  get diagnostics v_count = row_count;
  return v_count;
exception when check_violation or invalid_text_representation or numeric_value_out_of_range then
  perform memdb._raise('MD001', 'an assessment is {event_id, span, outcome, reason, importance, components, confidence, memory_id, version}',
    jsonb_build_object('field', 'assessments'), 'outcome is created, confirmed, versioned, unchanged or dropped.');
end $$;
comment on function memdb.record_assessments (integer, jsonb) is 'Write down why words of events were kept or dropped.';

-- explain_writing: what the pipeline made of an event or of the words a memory came from, and why.
--
-- Give an event, or a memory. One row for each statement that was seen, with the words as they
-- stand in the event; oldest first. Rows of namespaces the caller may not read are left out.
create or replace function memdb.explain_writing (
  p_tenant integer,
  p_event  bigint default null,
  p_memory bigint default null
)
  returns table (
    assessment_id bigint, event_id bigint, quote text, outcome text, reason text, importance real, components jsonb,
    confidence real, memory_id bigint, version integer, recorded_at timestamptz)
  language sql stable rows 10
begin atomic
  select a.assessment_id, a.event_id,
         case when a.span_from is null then e.text else substr(e.text, a.span_from + 1, a.span_to - a.span_from) end,
         a.outcome, a.reason, a.importance, a.components, a.confidence, a.memory_id, a.version, a.recorded_at
    from memdb.assessment a
    join memdb.event e on e.tenant_id = a.tenant_id and e.event_id = a.event_id
   where a.tenant_id = p_tenant and (a.event_id = p_event or a.memory_id = p_memory)
   order by a.assessment_id;
end;
comment on function memdb.explain_writing (integer, bigint, bigint) is 'What the pipeline made of an event or of the words a memory came from, and why.';

-- hold_truth: let the rest of this transaction change what is held to be true, before it begins to record.
--
-- For a transaction that records memories and supersedes others. Recorders hold the truth lock shared
-- and superseding takes it alone, so two transactions that do both, in this order, would wait for
-- each other; this takes it alone at the start. Until commit nobody else records in the tenant.
-- Raises MD301.
create or replace function memdb.hold_truth (p_tenant integer)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._lock_truth(p_tenant, true);
end $$;
comment on function memdb.hold_truth (integer) is 'Let the rest of this transaction change what is held to be true, before it begins to record.';
