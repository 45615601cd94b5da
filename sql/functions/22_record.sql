-- record_memories: the one way a memory comes into being.
--
-- Three steps in one transaction: place every item (a new memory, a further reason for a known
-- one, a new version: 21_place), write versions and reasons (23_version), hang on entities, edges and
-- vectors.

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
    perform memdb._insert_first_embeddings(p_tenant, v_model.model_id, v_ids, v_versions, v_vectors);
  end if;
  if (select count(*) from unnest(p_places) p where p.outcome in ('created', 'versioned')) > coalesce(cardinality(v_ids), 0)
     or exists (select from memdb.embedding_model d where d.tenant_id = p_tenant and d.state = 'filling') then
    insert into memdb.embedding_queue (tenant_id, model_id, memory_id, version, namespace_id)
      select p_tenant, d.model_id, p.memory_id, p.version, i.namespace_id
        from unnest(p_places) p
        join unnest(p_items) i on i.ordinal = p.ordinal
        join memdb.embedding_model d on d.tenant_id = p_tenant and d.state <> 'retired'
       where p.outcome in ('created', 'versioned') and (i.vector is null or d.state = 'filling');
  end if;
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
--
-- Raises MD001, MD103 and MD104 with the index of the item.
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
  v_ordinals integer[];
begin
  if exists (select from unnest(p_items) i where i.entities <> '[]') then
    perform memdb._check_entities(p_items);
    select jsonb_agg(e.entity || jsonb_build_object('memory_id', p.memory_id, 'namespace_id', i.namespace_id))
      into v_mentions
      from unnest(p_places) p
      join unnest(p_items) i on i.ordinal = p.ordinal
      cross join jsonb_array_elements(i.entities) e (entity);
    perform memdb._record_mentions(p_tenant, v_mentions);
  end if;
  if memdb._write_plain_edges(p_tenant, p_items, p_places) then
    return;
  end if;
  -- Something is wrong with one of them. Edge by edge the error names the item.
  select jsonb_agg(e.edge || jsonb_build_object('from_memory_id', p.memory_id) order by p.ordinal, e.place),
         array_agg(p.ordinal order by p.ordinal, e.place)
    into v_edges, v_ordinals
    from unnest(p_places) p
    join unnest(p_items) i on i.ordinal = p.ordinal
    cross join jsonb_array_elements(i.edges) with ordinality e (edge, place);
  perform memdb._write_edges(p_tenant, v_edges, v_ordinals);
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
  perform memdb._check_plain(p_memories, array['metadata', 'sources', 'vector', 'entities', 'edges']);
  perform memdb._writable(p_tenant, w.namespace, null)
     from (select distinct r.namespace from jsonb_to_recordset(p_memories) r (namespace text)
            where r.namespace is not null order by 1) w;
  v_sources := array(select s from memdb._memory_sources(p_tenant, p_memories, memdb._readable(p_tenant, null, null)) s);
  v_items := array(select i from memdb._memory_items(p_tenant, p_memories, v_sources, memdb.current_time()) i);
  perform memdb._check_writers(p_tenant, v_items);
  perform memdb._first_statistics();
  v_exclusive := memdb._changes_truth(p_tenant, v_items, '{}');
  perform memdb._lock_truth(p_tenant, v_exclusive);
  perform memdb._make_way(p_tenant, v_items, v_sources);
  v_now := case when v_exclusive then memdb._truth_time(p_tenant) else memdb.current_time() end;
  v_out := memdb._sources_out(p_tenant, v_sources);
  v_places := memdb._create_memories(p_tenant, v_items, v_out, v_now);
  -- What this transaction has just made nobody else knows yet: only the rest is to be locked and judged.
  if cardinality(v_places) < cardinality(v_items) then
    v_new := array(select p.memory_id from unnest(v_places) p);
    perform memdb._lock_known(p_tenant, v_items);
    v_places := array(select p from memdb._place_memories(p_tenant, v_items, v_sources, v_new) p);
    if not v_exclusive and memdb._changes_truth(p_tenant, v_items, v_new) then
      perform memdb._raise('40001', 'the truth about these memories changed meanwhile', null, 'Try again.');
    end if;
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
  perform memdb._note_written(p_tenant, v_sources, v_places, v_now);
  return query select p.ordinal, p.memory_id, p.version, p.outcome from unnest(v_places) p order by p.ordinal;
exception
  when invalid_text_representation or numeric_value_out_of_range or invalid_parameter_value or datatype_mismatch then
    perform memdb._raise('MD001', sqlerrm, memdb._bad_memory(p_memories), 'A field has the wrong type.');
  when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value then
    perform memdb._raise('MD006', sqlerrm, memdb._bad_memory(p_memories), 'Give times as ISO 8601 with an offset.');
end $$;
comment on function memdb.record_memories (integer, jsonb, text) is 'Store a batch of memories with their sources, all or nothing.';
