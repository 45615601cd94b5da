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

-- compose_passages: the heading and the words to encode of memories that are about to be recorded.
--
-- p_memories: array of {text*, heading, speaker, language, occurred_at, sources}, as record_memories
-- takes them. An item without sources, because its event is written together with it, may bring
-- the event's time_zone. Returns per item its 0-based ordinal, the heading it would get and the text to encode: the same that pending_embeddings
-- hands out. Record the item with this heading: the date in it then stays the one encoded.
-- Stores nothing. Raises MD001, MD003, MD006 (wrong type), MD103 to MD105 and MD005 (source), MD301.
-- Cost: a look-up a source.
create or replace function memdb.compose_passages (
  p_tenant   integer,
  p_memories jsonb
)
  returns table (ordinal integer, heading text, text text)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now timestamptz := memdb.current_time();
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_memories,
    array['text', 'heading', 'speaker', 'language', 'occurred_at', 'time_zone', 'sources'], array['text']);
  return query
  with inherited as (
    select s.ordinal, min(s.occurred_at) as occurred_at,
           (array_agg(s.speaker order by s.place))[1] as speaker, (array_agg(s.language order by s.place))[1] as language,
           (array_agg(s.time_zone order by s.place))[1] as time_zone
      from memdb._memory_sources(p_tenant, p_memories, memdb._readable(p_tenant, null, null)) s
     group by s.ordinal
  ), item as (
    select i.ordinal::integer - 1 as ordinal, w.*
      from jsonb_array_elements(p_memories) with ordinality i (item, ordinal)
      cross join jsonb_to_record(i.item) w (
        text text, heading text, speaker text, language text, occurred_at timestamptz, time_zone text)
  )
  select i.ordinal, h.heading, h.heading || ': ' || i.text
    from item i
    left join inherited s on s.ordinal = i.ordinal
    cross join lateral (
      select coalesce(i.heading, memdb._heading(
        lower(coalesce(i.language, s.language)),
        coalesce(i.occurred_at, s.occurred_at, v_now) at time zone coalesce(s.time_zone, i.time_zone, 'UTC'),
        coalesce(i.speaker, s.speaker))) as heading) h
   order by i.ordinal;
exception
  when invalid_text_representation or numeric_value_out_of_range or datatype_mismatch then
    perform memdb._raise('MD001', sqlerrm, memdb._bad_memory(p_memories), 'A field has the wrong type.');
  when invalid_datetime_format or datetime_field_overflow or invalid_parameter_value then
    perform memdb._raise('MD006', sqlerrm, memdb._bad_memory(p_memories), 'Give times as ISO 8601 with an offset, and zones by their IANA names.');
end $$;
comment on function memdb.compose_passages (integer, jsonb) is 'The heading and the words to encode of memories that are about to be recorded.';
