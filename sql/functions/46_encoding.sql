-- What an encoder, which runs outside, has to know before it is asked.
--
-- A memory can be stored with its vector in one transaction only if it is encoded before: so the
-- words to encode are composed here first, in the way record_memories would.

-- list_embedding_models: the encoders whose vectors a tenant keeps, the active one first.
--
-- state is active (recall searches its vectors), filling or retired. Runs as the caller: rows
-- come through row security. Raises MD001, MD301.
create or replace function memdb.list_embedding_models (p_tenant integer)
  returns table (model_id integer, name text, dimensions integer, state text, fingerprint text)
  language plpgsql stable rows 2
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  return query
    select m.model_id, m.name, m.dimensions, m.state, m.fingerprint
      from memdb.embedding_model m
     where m.tenant_id = p_tenant
     order by m.state <> 'active', m.model_id;
end $$;
comment on function memdb.list_embedding_models (integer) is 'The encoders whose vectors a tenant keeps, the active one first.';

-- _inherited_headings: what the sources of each item of a batch say for its heading, by ordinal.
--
-- As record_memories has it: the time of the earliest source, the rest of the first.
create or replace function memdb._inherited_headings (p_tenant integer, p_memories jsonb)
  returns jsonb
  language sql stable
begin atomic
  select coalesce(jsonb_object_agg(i.ordinal, jsonb_strip_nulls(jsonb_build_object(
           'occurred_at', i.occurred_at, 'source_zone', i.time_zone, 'speaker', i.speaker, 'language', i.language))), '{}')
    from (select s.ordinal, min(s.occurred_at) as occurred_at,
                 (array_agg(s.time_zone order by s.place))[1] as time_zone,
                 (array_agg(s.speaker order by s.place))[1] as speaker,
                 (array_agg(s.language order by s.place))[1] as language
            from memdb._memory_sources(p_tenant, p_memories, memdb._readable(p_tenant, null, null)) s
           group by s.ordinal) i;
end;
comment on function memdb._inherited_headings (integer, jsonb) is 'What the sources of each item of a batch say for its heading, by ordinal.';

-- compose_passages: the heading and the words to encode of memories that are about to be recorded.
--
-- p_memories: array of {text*, heading, speaker, language, occurred_at, sources}, as record_memories
-- takes them. An item without sources, because its event is written together with it, may bring
-- the event's time_zone. Returns per item its 0-based ordinal, the heading it would get and the
-- text to encode: the same that pending_embeddings hands out. Record the item with this heading:
-- the date in it then stays the one encoded. Stores nothing. Raises with the index MD001, MD003,
-- MD005, MD006, MD103, MD104; MD301. Cost: a look-up a source.
create or replace function memdb.compose_passages (
  p_tenant   integer,
  p_memories jsonb
)
  returns table (ordinal integer, heading text, text text)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now       timestamptz := memdb.current_time();
  v_inherited jsonb;
  v_item      jsonb;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_memories,
    array['text', 'heading', 'speaker', 'language', 'occurred_at', 'time_zone', 'sources'], array['text']);
  v_inherited := memdb._inherited_headings(p_tenant, p_memories);
  ordinal := 0;
  -- What the item says wins over what its sources say; keys stay apart by their names.
  for v_item in
    select coalesce(v_inherited -> (i.place - 1)::text, '{}') || jsonb_strip_nulls(i.item)
      from jsonb_array_elements(p_memories) with ordinality i (item, place)
     order by i.place
  loop
    heading := coalesce(v_item ->> 'heading', memdb._heading(
      lower(v_item ->> 'language'),
      coalesce((v_item ->> 'occurred_at')::timestamptz, v_now)
        at time zone coalesce(v_item ->> 'source_zone', v_item ->> 'time_zone', 'UTC'),
      v_item ->> 'speaker'));
    -- An empty heading is none: the text alone is encoded.
    text := coalesce(nullif(heading, '') || ': ', '') || (v_item ->> 'text');
    return next;
    ordinal := ordinal + 1;
  end loop;
exception
  when invalid_text_representation or numeric_value_out_of_range then
    perform memdb._raise('MD001', sqlerrm, memdb._bad_memory(p_memories), 'A field has the wrong type.');
  when invalid_datetime_format or datetime_field_overflow then
    perform memdb._raise('MD006', sqlerrm, jsonb_build_object('index', ordinal, 'field', 'occurred_at'),
      'Give times as ISO 8601 with an offset.');
  when invalid_parameter_value then
    perform memdb._raise('MD006', sqlerrm, jsonb_build_object('index', ordinal, 'field', 'time_zone'),
      'Give the zone by its IANA name, as Asia/Shanghai.');
end $$;
comment on function memdb.compose_passages (integer, jsonb) is 'The heading and the words to encode of memories that are about to be recorded.';
