-- Versions: writing what was placed, and taking out of use what it replaces.
--
-- The second step of record_memories (22), and the ground of supersede_memory (38).

-- _write_versions: write versions, justifications and premises of the placed items.
--
-- Returns the justifications of known facts, which may lift a fallen memory. A first
-- justification supports its memory; a further one waits until it is needed.
create or replace function memdb._write_versions (
  p_tenant  integer,
  p_items   memdb._memory_item[],
  p_sources memdb._memory_source[],
  p_places  memdb._memory_place[],
  p_out     integer[],
  p_now     timestamptz
)
  returns bigint[]
  language sql volatile
begin atomic
  with item as materialized (
    select i.ordinal, i.namespace_id, i.user_id, i.text, i.summary, i.heading, i.language, i.metadata, i.event_id, i.valid_from,
           i.valid_to, i.method, i.confidence, i.model, p.memory_id, p.version, p.outcome <> 'confirmed' as supports,
           nextval('memdb.justification_justification_id_seq') as justification_id
      from unnest(p_items) i
      join unnest(p_places) p on p.ordinal = i.ordinal
     where p.outcome <> 'unchanged'
  ), version as (
    insert into memdb.memory_version (
      tenant_id, memory_id, version, namespace_id, user_id, text, summary, heading, language, metadata, event_id,
      valid_from, valid_to, recorded_at)
    select p_tenant, i.memory_id, i.version, i.namespace_id, i.user_id, i.text, i.summary, i.heading, i.language,
           i.metadata, i.event_id, i.valid_from, i.valid_to, p_now
      from item i
     where i.supports
  ), queued as (
    insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select p_tenant, i.namespace_id, i.memory_id, i.version from item i where i.supports
  ), reason as (
    insert into memdb.justification (
      tenant_id, justification_id, namespace_id, memory_id, version, method, confidence, model, supports, recorded_at)
    overriding system value
    select p_tenant, i.justification_id, i.namespace_id, i.memory_id, i.version, i.method, i.confidence, i.model,
           i.supports, p_now
      from item i
  ), stale as (
    insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, depth)
    select p_tenant, i.namespace_id, 'memory', i.memory_id, 'stale', p_now, 'premise_out', 1
      from item i where i.supports and i.ordinal = any (p_out)
  ), premise as (
    insert into memdb.premise (
      tenant_id, justification_id, ordinal, namespace_id, conclusion_id, event_id, span_from, span_to, memory_id,
      memory_version, supports)
    select p_tenant, i.justification_id, s.place, i.namespace_id, i.memory_id, s.event_id, s.span_from, s.span_to,
           s.memory_id, s.memory_version, i.supports
      from item i
      join unnest(p_sources) s on s.ordinal = i.ordinal
  )
  select coalesce(array_agg(i.justification_id), '{}') from item i where not i.supports;
end;
comment on function memdb._write_versions (integer, memdb._memory_item[], memdb._memory_source[], memdb._memory_place[], integer[], timestamptz) is 'Write versions, justifications and premises of the placed items.';

-- _name_born: tell why the memories of a batch are out that were born stale, their sources being out.
create or replace function memdb._name_born (
  p_tenant integer,
  p_places memdb._memory_place[],
  p_out    integer[],
  p_now    timestamptz
)
  returns void
  language plpgsql volatile
as $$
begin
  if p_out <> '{}' then
    perform memdb._name_causes(p_tenant, array(
      select p.memory_id from unnest(p_places) p
       where p.ordinal = any (p_out) and p.outcome in ('created', 'versioned')), p_now);
  end if;
end $$;
comment on function memdb._name_born (integer, memdb._memory_place[], integer[], timestamptz) is 'Tell why the memories of a batch are out that were born stale, their sources being out.';

-- _retire_versions: take the current versions of memories out of use, before new ones are written.
--
-- Closes the version and notes what else the memory was with it, moves its vectors to the cold
-- table (as-of recall still reads them there), drops it from the queues, takes its words out of
-- the keyword statistics, and lets its justifications support nothing: a later retraction of an
-- old source must not fell the new version.
create or replace function memdb._retire_versions (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_now        timestamptz
)
  returns void
  language plpgsql volatile
as $$
begin
  with retired as (
    update memdb.memory_version v
       set retired_at = greatest(p_now, v.recorded_at + interval '1 microsecond'),
           replaced = jsonb_build_object('type', m.type, 'importance', m.importance, 'confidence', m.confidence,
                                         'trust', m.trust, 'occurred_at', m.occurred_at)
      from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
       and v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
    returning v.namespace_id, v.memory_id, v.version, v.keyword)
  insert into memdb.keyword_queue (tenant_id, namespace_id, lexemes, sign)
    select p_tenant, r.namespace_id, tsvector_to_array(r.keyword), -1 from retired r;
  with moved as (
    delete from memdb.embedding e
     using memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
       and e.tenant_id = p_tenant and e.memory_id = m.memory_id and e.version = m.version
       and e.model_id in (select d.model_id from memdb.embedding_model d where d.tenant_id = p_tenant)
    returning e.*)
  insert into memdb.embedding_cold select d.* from moved d on conflict do nothing;
  delete from memdb.embedding_queue q
   where q.tenant_id = p_tenant and q.memory_id = any (p_memory_ids);
  with idle as (
    update memdb.justification j set supports = false
     where j.tenant_id = p_tenant and j.memory_id = any (p_memory_ids) and j.supports
    returning j.justification_id)
  update memdb.premise p set supports = false
    from idle i
   where p.tenant_id = p_tenant and p.justification_id = i.justification_id;
end $$;
comment on function memdb._retire_versions (integer, bigint[], timestamptz) is 'Take the current versions of memories out of use, before new ones are written.';

-- _advance_memories: give memories that got other content their next version number and their new state.
--
-- The caller holds the truth lock exclusively. An old fall ends here: the new version stands on
-- its own sources, or is born stale where one of them (p_out) is out. What rested on the old
-- version falls with cause premise_superseded.
create or replace function memdb._advance_memories (
  p_tenant integer,
  p_items  memdb._memory_item[],
  p_places memdb._memory_place[],
  p_out    integer[],
  p_now    timestamptz
)
  returns void
  language plpgsql volatile
as $$
declare
  v_ids bigint[] := array(select p.memory_id from unnest(p_places) p where p.outcome = 'versioned' order by 1);
  v_was bigint[];
  v_id  bigint;
begin
  if v_ids = '{}' then
    return;
  end if;
  v_was := array(select m.memory_id from memdb.memory m
                  where m.tenant_id = p_tenant and m.memory_id = any (v_ids) and m.status in ('retracted', 'contradicted'));
  -- What the old versions rested on loses them.
  perform memdb._note_uses(p_tenant, array(
    select distinct p.memory_id
      from memdb.justification j
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id and p.memory_id is not null
     where j.tenant_id = p_tenant and j.memory_id = any (v_ids) and j.supports), 0, p_now);
  perform memdb._retire_versions(p_tenant, v_ids, p_now);
  perform memdb._close_beliefs(p_tenant, 'memory', v_ids, p_now);
  perform memdb._drop_tasks(p_tenant, v_ids, p_now);
  update memdb.memory m
     set version = p.version, content_hash = i.content_hash, type = i.type, importance = i.importance,
         confidence = i.confidence, trust = i.trust, occurred_at = i.occurred_at, is_pinned = m.is_pinned or i.is_pinned,
         status = case when i.ordinal = any (p_out) then 'stale' else 'active' end,
         -- Out of the archive, where it would not be found.
         tier = case m.tier when 'archive' then i.tier else m.tier end
    from unnest(p_places) p
    join unnest(p_items) i on i.ordinal = p.ordinal
   where p.outcome = 'versioned' and m.tenant_id = p_tenant and m.memory_id = p.memory_id;
  perform memdb._arm_memories(p_tenant, v_ids);
  perform memdb._note_uses(p_tenant, v_ids, 1, p_now);
  perform memdb._rename_causes(p_tenant, 'memory', v_was, p_now);
  foreach v_id in array v_ids loop
    perform memdb._fall(p_tenant, memdb._resting_on_memories(p_tenant, array[v_id]), 'premise_superseded', 'memory', v_id, null, p_now);
  end loop;
end $$;
comment on function memdb._advance_memories (integer, memdb._memory_item[], memdb._memory_place[], integer[], timestamptz) is 'Give memories that got other content their next version number and their new state.';
