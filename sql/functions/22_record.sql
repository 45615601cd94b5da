-- record_memories: the one way a memory comes into being.
--
-- Three steps in one transaction: place every item (a new memory, a further reason for a known
-- one, a new version), write versions and reasons, hang on entities, edges and vectors.

-- _insert_new_memories: insert the memories of a batch that are not known yet; returns their ids.
--
-- Two writers of one fact at once: the unique index makes the second wait and skip, and it then
-- finds the row of the first. Rows go in in the order of their unique keys, so overlapping
-- batches cannot deadlock; ids are drawn in the order of the batch. p_out are the items of
-- which a source is out: they are born stale.
create or replace function memdb._insert_new_memories (
  p_tenant integer,
  p_items  memdb._memory_item[],
  p_out    integer[],
  p_now    timestamptz
)
  returns bigint[]
  language sql volatile
begin atomic
  with fresh as materialized (
    select i.*, nextval('memdb.memory_memory_id_seq') as new_id
      from unnest(p_items) i
     where case when i.external_id is not null then not exists (
                  select from memdb.memory m
                   where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id)
                else not exists (
                  select from memdb.memory m
                   where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id is null
                     and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id) end
  ), inserted as (
    insert into memdb.memory as m (
      tenant_id, memory_id, namespace_id, session_id, sequence, user_id, agent_id, type, external_id, content_hash,
      status, tier, is_pinned, importance, confidence, trust, occurred_at, recorded_at)
    overriding system value
    select p_tenant, f.new_id, f.namespace_id, f.session_id, f.sequence, f.user_id, f.agent_id, f.type, f.external_id,
           f.content_hash, case when f.ordinal = any (p_out) then 'stale' else 'active' end, f.tier, f.is_pinned, f.importance,
           f.confidence, f.trust, f.occurred_at, p_now
      from fresh f
     order by f.namespace_id, f.external_id nulls first, f.content_hash, f.user_id nulls first
    on conflict do nothing
    returning m.memory_id
  )
  select coalesce(array_agg(i.memory_id), '{}') from inserted i;
end;
comment on function memdb._insert_new_memories (integer, memdb._memory_item[], integer[], timestamptz) is 'Insert the memories of a batch that are not known yet; returns their ids.';

-- _changes_truth: whether a batch gives a known memory other content, or a reason to one that has fallen.
--
-- Such a batch takes the truth lock exclusively, since others may rest on what it changes. Asked
-- once before the lock and once after: a batch that found out too late starts again. p_new are
-- memories the batch itself has just made.
create or replace function memdb._changes_truth (p_tenant integer, p_items memdb._memory_item[], p_new bigint[])
  returns boolean
  language sql volatile
begin atomic
  select exists (
           select from unnest(p_items) i
             join memdb.memory m
               on m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id
            where (m.content_hash <> i.content_hash or m.status <> 'active') and m.memory_id <> all (p_new))
      or exists (
           select from unnest(p_items) i
             join memdb.memory m
               on m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id is null
              and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id
            where i.external_id is null and m.status <> 'active' and m.memory_id <> all (p_new));
end;
comment on function memdb._changes_truth (integer, memdb._memory_item[], bigint[]) is 'Whether a batch gives a known memory other content, or a reason to one that has fallen.';

-- _sources_out: the items of a batch of which at least one source does not hold.
--
-- Read under the truth lock, so it stays right until commit.
create or replace function memdb._sources_out (p_tenant integer, p_sources memdb._memory_source[])
  returns integer[]
  language sql volatile
begin atomic
  select coalesce(array_agg(distinct s.ordinal), '{}')
    from unnest(p_sources) s
   where (s.event_id is not null and exists (
            select from memdb.belief b
             where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = s.event_id and b.to_at is null))
      or (s.memory_id is not null and not exists (
            select from memdb.memory m
             where m.tenant_id = p_tenant and m.memory_id = s.memory_id and m.version = s.memory_version and m.status = 'active'));
end;
comment on function memdb._sources_out (integer, memdb._memory_source[]) is 'The items of a batch of which at least one source does not hold.';

-- _lock_known: lock the memories a batch speaks of, in id order, until commit.
--
-- A statement of its own: what is read after it is what the last writer of these rows committed.
create or replace function memdb._lock_known (p_tenant integer, p_items memdb._memory_item[])
  returns void
  language sql volatile
begin atomic
  select from memdb.memory m
   where m.tenant_id = p_tenant
     and m.memory_id in (
       select k.memory_id from unnest(p_items) i
         join memdb.memory k on k.tenant_id = p_tenant and k.namespace_id = i.namespace_id and k.external_id = i.external_id
       union all
       select k.memory_id from unnest(p_items) i
         join memdb.memory k on k.tenant_id = p_tenant and k.namespace_id = i.namespace_id and k.external_id is null
          and k.content_hash = i.content_hash and k.user_id is not distinct from i.user_id
        where i.external_id is null)
   order by m.memory_id
     for no key update;
end;
comment on function memdb._lock_known (integer, memdb._memory_item[]) is 'Lock the memories a batch speaks of, in id order, until commit.';

-- _has_justification: whether a version already rests on exactly these premises.
--
-- p_premises: event ids, and memory ids negated, in ascending order. Cost: the justifications of one memory.
create or replace function memdb._has_justification (
  p_tenant   integer,
  p_memory   bigint,
  p_version  integer,
  p_premises bigint[]
)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from memdb.justification j
     where j.tenant_id = p_tenant and j.memory_id = p_memory and j.version = p_version
       and p_premises = (select array_agg(coalesce(p.event_id, -p.memory_id) order by coalesce(p.event_id, -p.memory_id))
                           from memdb.premise p
                          where p.tenant_id = p_tenant and p.justification_id = j.justification_id));
end;
comment on function memdb._has_justification (integer, bigint, integer, bigint[]) is 'Whether a version already rests on exactly these premises.';

-- _place_memories: which memory each item of a batch speaks of, and what is to be done to it.
--
-- created: the memory is in p_new. versioned: known external_id, other content. confirmed: known
-- fact, further justification. unchanged: the
-- same fact with the same sources, or the same external_id with the same content. Raises MD201 where one batch gives one external_id two
-- contents, MD205 where a less trusted source would replace a more trusted one.
create or replace function memdb._place_memories (
  p_tenant  integer,
  p_items   memdb._memory_item[],
  p_sources memdb._memory_source[],
  p_new     bigint[]
)
  returns setof memdb._memory_place
  language sql volatile rows 1000
begin atomic
  with known as materialized (
    select i.ordinal, i.content_hash, i.trust, i.external_id, m.memory_id, m.version, m.status,
           m.content_hash as known_hash, m.trust as known_trust
      from unnest(p_items) i
      cross join lateral (
        select m.* from memdb.memory m
         where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id
        union all
        select m.* from memdb.memory m
         where i.external_id is null and m.tenant_id = p_tenant and m.namespace_id = i.namespace_id
           and m.external_id is null and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id) m
  ), placed as (
    select k.*, row_number() over same = 1 as is_first, first_value(k.content_hash) over same as first_hash,
           (select array_agg(coalesce(s.event_id, -s.memory_id) order by coalesce(s.event_id, -s.memory_id))
              from unnest(p_sources) s where s.ordinal = k.ordinal) as premises
      from known k
    window same as (partition by k.memory_id order by k.ordinal)
  ), judged as (
    select p.*, case
             when p.memory_id = any (p_new) and p.is_first then 'created'
             when p.known_hash <> p.content_hash then 'versioned'
             when p.external_id is not null and p.status = 'active' then 'unchanged'
             when p.memory_id <> all (p_new) and memdb._has_justification(p_tenant, p.memory_id, p.version, p.premises) then 'unchanged'
             else 'confirmed' end as outcome
      from placed p
  )
  select (j.ordinal, j.memory_id, j.version + (j.outcome = 'versioned')::integer, j.outcome)::memdb._memory_place
    from judged j
   where case
     when j.first_hash <> j.content_hash then
       memdb._raise('MD201', 'one batch gives one external_id two contents',
         jsonb_build_object('index', j.ordinal, 'external_id', j.external_id), 'Send the later one in a batch of its own.')
     when j.outcome = 'versioned' and j.trust < j.known_trust then
       memdb._raise('MD205', 'a less trusted source may not replace a more trusted one',
         jsonb_build_object('index', j.ordinal, 'memory_id', j.memory_id, 'trust', j.known_trust),
         'Record it under another external_id; both then stand side by side until somebody decides.')
     else true end;
end;
comment on function memdb._place_memories (integer, memdb._memory_item[], memdb._memory_source[], bigint[]) is 'Which memory each item of a batch speaks of, and what is to be done to it.';

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
    select i.*, p.memory_id, p.version, p.outcome, p.outcome <> 'confirmed' as supports,
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
  perform memdb._retire_versions(p_tenant, v_ids, p_now);
  perform memdb._close_beliefs(p_tenant, 'memory', v_ids, p_now);
  perform memdb._drop_tasks(p_tenant, v_ids, p_now);
  update memdb.memory m
     set version = p.version, content_hash = i.content_hash, type = i.type, importance = i.importance,
         confidence = i.confidence, trust = i.trust, occurred_at = i.occurred_at, is_pinned = m.is_pinned or i.is_pinned,
         status = case when i.ordinal = any (p_out) then 'stale' else 'active' end
    from unnest(p_places) p
    join unnest(p_items) i on i.ordinal = p.ordinal
   where p.outcome = 'versioned' and m.tenant_id = p_tenant and m.memory_id = p.memory_id;
  perform memdb._rename_causes(p_tenant, 'memory', v_was, p_now);
  foreach v_id in array v_ids loop
    perform memdb._fall(p_tenant, memdb._resting_on_memories(p_tenant, array[v_id]), 'premise_superseded', 'memory', v_id, null, p_now);
  end loop;
end $$;
comment on function memdb._advance_memories (integer, memdb._memory_item[], memdb._memory_place[], integer[], timestamptz) is 'Give memories that got other content their next version number and their new state.';

-- _write_vectors: store the vectors that came with a batch, and queue the versions that still need one.
--
-- Raises MD105 for a vector without an active model, MD004 where p_vector_model is not it.
create or replace function memdb._write_vectors (
  p_tenant       integer,
  p_items        memdb._memory_item[],
  p_places       memdb._memory_place[],
  p_vector_model text
)
  returns void
  language plpgsql volatile
as $$
declare
  v_model    memdb.embedding_model;
  v_ordinals integer[];
  v_ids      bigint[];
  v_versions integer[];
  v_vectors  text[];
  v_message  text;
  v_detail   jsonb;
  v_hint     text;
begin
  select m.* into v_model from memdb.embedding_model m where m.tenant_id = p_tenant and m.state = 'active';
  select array_agg(p.ordinal order by p.ordinal), array_agg(p.memory_id order by p.ordinal),
         array_agg(p.version order by p.ordinal), array_agg(i.vector order by p.ordinal)
    into v_ordinals, v_ids, v_versions, v_vectors
    from unnest(p_places) p
    join unnest(p_items) i on i.ordinal = p.ordinal
   where i.vector is not null and p.outcome in ('created', 'versioned');
  if v_model.model_id is null and (v_ids is not null or p_vector_model is not null) then
    perform memdb._raise('MD105', 'this tenant has no active embedding model', jsonb_build_object('field', 'vector'),
      'Register one first: memdb.register_embedding_model(tenant, name, dimensions).');
  end if;
  if p_vector_model <> v_model.name then
    perform memdb._raise('MD004', 'the vectors come from another model than the active one',
      jsonb_build_object('given', p_vector_model, 'active', v_model.name),
      'Encode with the active model, or leave the vectors out and let the queue do it.');
  end if;
  if v_ids is not null then
    perform memdb._insert_embeddings(p_tenant, v_model.model_id, v_ids, v_versions, v_vectors);
  end if;
  insert into memdb.embedding_queue (tenant_id, model_id, memory_id, version, namespace_id)
    select p_tenant, d.model_id, p.memory_id, p.version, i.namespace_id
      from unnest(p_places) p
      join unnest(p_items) i on i.ordinal = p.ordinal
      join memdb.embedding_model d on d.tenant_id = p_tenant and d.state <> 'retired'
     where p.outcome in ('created', 'versioned') and (i.vector is null or d.state = 'filling');
exception when sqlstate 'MD004' then
  -- The index counted vectors; the caller counts items.
  get stacked diagnostics v_message = message_text, v_detail = pg_exception_detail, v_hint = pg_exception_hint;
  if v_detail ? 'index' then
    v_detail := v_detail || jsonb_build_object('index', v_ordinals[(v_detail ->> 'index')::integer + 1]);
  end if;
  perform memdb._raise('MD004', v_message, v_detail, v_hint);
end $$;
comment on function memdb._write_vectors (integer, memdb._memory_item[], memdb._memory_place[], text) is 'Store the vectors that came with a batch, and queue the versions that still need one.';

-- _write_links: hang the placed memories on their entities and on other memories.
create or replace function memdb._write_links (
  p_tenant integer,
  p_items  memdb._memory_item[],
  p_places memdb._memory_place[]
)
  returns void
  language plpgsql volatile
as $$
declare
  v_mentions jsonb;
  v_edges    jsonb;
begin
  select jsonb_agg(e.entity || jsonb_build_object('memory_id', p.memory_id, 'namespace_id', i.namespace_id))
    into v_mentions
    from unnest(p_places) p
    join unnest(p_items) i on i.ordinal = p.ordinal
    cross join jsonb_array_elements(i.entities) e (entity);
  if v_mentions is not null then
    perform memdb._record_mentions(p_tenant, v_mentions);
  end if;
  select jsonb_agg(e.edge || jsonb_build_object('from_memory_id', p.memory_id) order by p.ordinal)
    into v_edges
    from unnest(p_places) p
    join unnest(p_items) i on i.ordinal = p.ordinal
    cross join jsonb_array_elements(i.edges) e (edge);
  if v_edges is not null then
    perform memdb.relate_memories(p_tenant, v_edges);
  end if;
end $$;
comment on function memdb._write_links (integer, memdb._memory_item[], memdb._memory_place[]) is 'Hang the placed memories on their entities and on other memories.';

-- _check_writers: stop unless caller and acting agents may write where a batch is about to.
create or replace function memdb._check_writers (p_tenant integer, p_items memdb._memory_item[])
  returns void
  language plpgsql volatile
as $$
begin
  perform memdb._writable(p_tenant, n.path, w.agent_id)
     from (select distinct i.namespace_id, i.agent_id from unnest(p_items) i) w
     join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = w.namespace_id;
end $$;
comment on function memdb._check_writers (integer, memdb._memory_item[]) is 'Stop unless caller and acting agents may write where a batch is about to.';

-- _bad_memory: the index of the first item of a batch whose fields do not have their types, as error detail.
--
-- Runs only after the batch failed as a whole, which is parsed in one go for speed.
create or replace function memdb._bad_memory (p_memories jsonb)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_item  jsonb;
  v_index integer := -1;
begin
  for v_item in select i.item from jsonb_array_elements(p_memories) i (item) loop
    v_index := v_index + 1;
    perform r.*
       from jsonb_to_record(v_item) r (importance real, confidence real, is_pinned boolean, valid_from timestamptz,
                                       valid_to timestamptz, occurred_at timestamptz);
    perform (s.source ->> 'event_id')::bigint, (s.source ->> 'memory_id')::bigint, (s.source ->> 'version')::integer,
            (s.source -> 'span' ->> 0)::integer, (s.source -> 'span' ->> 1)::integer
       from jsonb_array_elements(v_item -> 'sources') s (source);
  end loop;
  return '{}';
exception when others then
  return jsonb_build_object('index', v_index);
end $$;
comment on function memdb._bad_memory (jsonb) is 'The index of the first item of a batch whose fields do not have their types, as error detail.';

-- record_memories: store a batch of memories with their sources, all or nothing.
--
-- p_memories: array of up to 10,000 objects. text and sources are required; a source is
-- {event_id, quote or span [from, to)} or {memory_id, version}. All sources of an item together
-- are one justification. Further fields: type (default observation), namespace, user, agent,
-- speaker, language (default: of the first source), external_id, summary, heading, importance
-- (0 to 10, default 5), confidence (0 to 1, default 1), tier, is_pinned, valid_from, valid_to,
-- occurred_at, metadata, method (default verbatim), model, vector (numbers, or their text
-- "[0.1, ...]", of the active embedding model, whose name p_vector_model may assert), entities
-- [{name, type, aliases}], edges [{to_memory_id, relation, weight, confidence}].
-- Returns one row per item, in order: memory, version and outcome: created; confirmed (the fact
-- was known in this namespace for this user: it got a further justification); versioned (known
-- external_id with other content); unchanged. A memory whose source is out is stored as stale.
-- Raises MD001 to MD006 (bad item), MD103, MD104 (unknown source), MD105 (vector without an active
-- model), MD201, MD205 (version), MD301, MD302. Cost: about 0.3 ms an item with a vector.
create or replace function memdb.record_memories (
  p_tenant       integer,
  p_memories     jsonb,
  p_vector_model text default null
)
  returns table (ordinal integer, memory_id bigint, version integer, outcome text)
  language plpgsql volatile security definer rows 1000
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
declare
  v_now       timestamptz;
  v_sources   memdb._memory_source[];
  v_items     memdb._memory_item[];
  v_places    memdb._memory_place[];
  v_out       integer[];
  v_new       bigint[];
  v_reasons   bigint[];
  v_exclusive boolean;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_memories,
    array['text', 'type', 'namespace', 'user', 'agent', 'external_id', 'summary', 'heading', 'speaker', 'language',
          'importance', 'confidence', 'tier', 'is_pinned', 'valid_from', 'valid_to', 'occurred_at', 'metadata', 'method',
          'model', 'sources', 'vector', 'entities', 'edges'],
    array['text']);
  perform memdb._writable(p_tenant, w.namespace, null)
     from (select distinct r.namespace from jsonb_to_recordset(p_memories) r (namespace text)
            where r.namespace is not null order by 1) w;
  v_sources := array(select s from memdb._memory_sources(p_tenant, p_memories, memdb._readable(p_tenant, null, null)) s);
  v_items := array(select i from memdb._memory_items(p_tenant, p_memories, v_sources, memdb.current_time()) i);
  perform memdb._check_writers(p_tenant, v_items);
  v_exclusive := memdb._changes_truth(p_tenant, v_items, '{}');
  perform memdb._lock_truth(p_tenant, v_exclusive);
  v_now := case when v_exclusive then memdb._truth_time(p_tenant) else memdb.current_time() end;
  v_out := memdb._sources_out(p_tenant, v_sources);
  v_new := memdb._insert_new_memories(p_tenant, v_items, v_out, v_now);
  perform memdb._lock_known(p_tenant, v_items);
  v_places := array(select p from memdb._place_memories(p_tenant, v_items, v_sources, v_new) p);
  if not v_exclusive and memdb._changes_truth(p_tenant, v_items, v_new) then
    perform memdb._raise('40001', 'the truth about these memories changed meanwhile', null, 'Try again.');
  end if;
  perform memdb._advance_memories(p_tenant, v_items, v_places, v_out, v_now);
  v_reasons := memdb._write_versions(p_tenant, v_items, v_sources, v_places, v_out, v_now);
  perform memdb._name_born(p_tenant, v_places, v_out, v_now);
  if v_exclusive then
    perform memdb._relearn(p_tenant, v_reasons, v_now);
    perform memdb._fall(p_tenant, memdb._unsupported(p_tenant, array(select p.memory_id from unnest(v_places) p)),
      'premise_out', null, null, null, v_now);
    perform memdb._queue_fallen(p_tenant, v_now);
  end if;
  perform memdb._write_vectors(p_tenant, v_items, v_places, p_vector_model);
  perform memdb._write_links(p_tenant, v_items, v_places);
  return query select p.ordinal, p.memory_id, p.version, p.outcome from unnest(v_places) p order by p.ordinal;
exception
  when invalid_text_representation or numeric_value_out_of_range or invalid_parameter_value or datatype_mismatch then
    perform memdb._raise('MD001', sqlerrm, memdb._bad_memory(p_memories), 'A field has the wrong type.');
  when invalid_datetime_format or datetime_field_overflow then
    perform memdb._raise('MD006', sqlerrm, memdb._bad_memory(p_memories), 'Give times as ISO 8601 with an offset.');
end $$;
comment on function memdb.record_memories (integer, jsonb, text) is 'Store a batch of memories with their sources, all or nothing.';
