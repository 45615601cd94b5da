-- Memories: what is kept, and on what it rests.
--
-- record_memories takes a batch of finished memories (verbatim or derived) with their sources
-- and writes everything about them in one transaction: identity, version, justification,
-- premises, entities, edges, vector or its place in the queue, keyword statistics. It is the
-- last step of every pipeline and the first an app needs.

-- _heading: the words indexed and embedded with a text but not shown: its date and who spoke.
--
-- The date takes the form people of that language ask in ("8 May 2023", 2023年5月8日): with it
-- keyword recall@10 rises by 5 to 6 points in English and Chinese (docs/decisions/0002).
create or replace function memdb._heading (
  p_language text,
  p_at       timestamp,
  p_speaker  text
)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_language in ('zh', 'ja') then to_char(p_at, 'FMYYYY"年"FMMM"月"FMDD"日"')
              when p_language = 'ko' then to_char(p_at, 'FMYYYY"년" FMMM"월" FMDD"일"')
              else to_char(p_at, 'FMDD FMMonth FMYYYY') end
      || coalesce(' ' || nullif(p_speaker, ''), '');
end;
comment on function memdb._heading (text, timestamp, text) is 'The words indexed and embedded with a text but not shown: its date and who spoke.';

-- _memory_sources: the sources of every item of a batch, checked, with what a memory inherits from them.
--
-- p_readable are the namespaces the caller may read (null = all): a source outside them does
-- not exist for it. Raises MD104, MD103, MD005, MD001 with the item's index.
create or replace function memdb._memory_sources (
  p_tenant   integer,
  p_memories jsonb,
  p_readable integer[]
)
  returns setof memdb._memory_source
  language sql volatile rows 1000
begin atomic
  with source as (
    select i.ordinal::integer - 1 as ordinal, s.place::smallint as place,
           (s.source ->> 'event_id')::bigint as event_id, (s.source ->> 'memory_id')::bigint as memory_id,
           (s.source ->> 'version')::integer as version, s.source ->> 'quote' as quote,
           (s.source -> 'span' ->> 0)::integer as span_from, (s.source -> 'span' ->> 1)::integer as span_to,
           s.source - array['event_id', 'memory_id', 'version', 'quote', 'span'] as rest
      from jsonb_array_elements(p_memories) with ordinality i (item, ordinal)
      cross join jsonb_array_elements(i.item -> 'sources') with ordinality s (source, place)
  ), found as (
    select s.ordinal, s.place, s.rest, e.event_id, s.quote,
           coalesce(s.span_from, nullif(position(s.quote in e.text), 0) - 1) as span_from,
           coalesce(s.span_to, nullif(position(s.quote in e.text), 0) - 1 + char_length(s.quote)) as span_to,
           char_length(e.text) as length, m.memory_id, coalesce(s.version, m.version) as memory_version, v.version as known_version,
           coalesce(e.namespace_id, m.namespace_id) as namespace_id, coalesce(e.session_id, m.session_id) as session_id,
           coalesce(e.sequence, m.sequence) as sequence, coalesce(e.occurred_at, m.occurred_at) as occurred_at,
           e.time_zone, coalesce(e.user_id, m.user_id) as user_id, coalesce(e.agent_id, m.agent_id) as agent_id,
           e.speaker, coalesce(e.language, v.language) as language, coalesce(e.trust, m.trust) as trust,
           s.event_id as asked_event, s.memory_id as asked_memory
      from source s
      left join memdb.event e
        on e.tenant_id = p_tenant and e.event_id = s.event_id
       and (p_readable is null or e.namespace_id = any (p_readable))
      left join memdb.memory m
        on m.tenant_id = p_tenant and m.memory_id = s.memory_id
       and (p_readable is null or m.namespace_id = any (p_readable))
      left join memdb.memory_version v
        on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = coalesce(s.version, m.version)
  )
  select f.ordinal, f.place, f.event_id, f.span_from, f.span_to, f.memory_id, f.memory_version, f.namespace_id,
         f.session_id, f.sequence, f.occurred_at, f.time_zone, f.user_id, f.agent_id, f.speaker, f.language, f.trust
    from found f
   where case
     when f.rest <> '{}' or (f.asked_event is null) = (f.asked_memory is null) then
       memdb._raise('MD001', 'a source is {event_id, quote or span} or {memory_id, version}',
         jsonb_build_object('index', f.ordinal, 'field', 'sources'))
     when f.asked_event is not null and f.event_id is null then
       memdb._raise('MD104', 'no such event', jsonb_build_object('index', f.ordinal, 'event_id', f.asked_event),
         'Append the event first; a source must be in the same tenant and readable.')
     when f.asked_memory is not null and f.known_version is null then
       memdb._raise('MD103', 'no such memory or version', jsonb_build_object('index', f.ordinal, 'memory_id', f.asked_memory),
         'A source must be in the same tenant and readable.')
     when (f.quote is not null and f.span_from is null) or (f.span_from is null) <> (f.span_to is null)
       or not (f.span_from >= 0 and f.span_from < f.span_to and f.span_to <= f.length) then
       memdb._raise('MD005', 'the quoted span is not in the text of the event',
         jsonb_build_object('index', f.ordinal, 'event_id', f.event_id),
         'A span is [from, to) in characters of event.text, counted from 0; a quote must occur in it letter by letter.')
     else true end;
end;
comment on function memdb._memory_sources (integer, jsonb, integer[]) is 'The sources of every item of a batch, checked, with what a memory inherits from them.';

-- _check_memory: refuse a memory whose fields are out of range; true when it is sound.
create or replace function memdb._check_memory (
  p_index integer, p_text text, p_type text, p_user text, p_external text, p_summary text, p_heading text, p_importance real,
  p_confidence real, p_tier text, p_valid_from timestamptz, p_valid_to timestamptz, p_occurred_at timestamptz,
  p_metadata jsonb, p_method text, p_entities jsonb, p_edges jsonb
)
  returns boolean
  language plpgsql volatile
as $$
declare
  v_field text := case
    when btrim(p_text) = '' then 'text'
    when p_type not in ('observation', 'reasoning', 'action', 'result', 'fact', 'preference', 'constraint', 'decision', 'summary')
      then 'type'
    when p_user = '' or char_length(p_user) > 200 then 'user'
    when p_external = '' or char_length(p_external) > 512 then 'external_id'
    when char_length(p_summary) > 4096 then 'summary'
    when char_length(p_heading) > 1024 then 'heading'
    when not (p_importance >= 0 and p_importance <= 10) then 'importance'
    when not (p_confidence >= 0 and p_confidence <= 1) then 'confidence'
    when p_tier not in ('working', 'short_term', 'long_term') then 'tier'
    when p_method not in ('verbatim', 'template', 'rule', 'model', 'merge', 'summary', 'manual') then 'method'
    when p_valid_from >= p_valid_to then 'valid_to'
    when jsonb_typeof(p_metadata) <> 'object' then 'metadata'
    when jsonb_typeof(p_entities) <> 'array' then 'entities'
    when jsonb_typeof(p_edges) <> 'array' then 'edges' end;
begin
  if v_field is not null then
    perform memdb._raise('MD001', format('field "%s" is empty or out of range', v_field),
      jsonb_build_object('index', p_index, 'field', v_field),
      'importance is 0 to 10, confidence 0 to 1, valid_from before valid_to; tier working, short_term or long_term; '
      'text is not blank; metadata is an object, entities and edges are arrays.');
  end if;
  if not isfinite(p_occurred_at) then
    perform memdb._raise('MD006', 'a time must be finite', jsonb_build_object('index', p_index, 'field', 'occurred_at'));
  end if;
  return true;
end $$;
comment on function memdb._check_memory (integer, text, text, text, text, text, text, real, real, text, timestamptz, timestamptz, timestamptz, jsonb, text, jsonb, jsonb) is 'Refuse a memory whose fields are out of range; true when it is sound.';

-- _memory_items: a batch of memory objects as typed rows, completed from their sources.
--
-- Where the item is silent, namespace, user, agent, speaker and language are those of its first
-- source, the time that of its earliest, trust that of its best. first_ordinal is the first item
-- of the batch that states the same fact or carries the same external_id.
-- Raises MD001, MD002, MD003, MD006 with the item's index.
create or replace function memdb._memory_items (
  p_tenant   integer,
  p_memories jsonb,
  p_sources  memdb._memory_source[],
  p_now      timestamptz
)
  returns setof memdb._memory_item
  language sql volatile rows 1000
begin atomic
  with inherited as (
    select s.ordinal, count(*) as sources, max(s.trust) as trust, min(s.occurred_at) as occurred_at,
           (array_agg(s.event_id order by s.event_id is null, s.place))[1] as event_id,
           (array_agg(s.session_id order by s.session_id is null, s.place))[1] as session_id,
           (array_agg(s.sequence order by s.session_id is null, s.place))[1] as sequence,
           (array_agg(s.namespace_id order by s.place))[1] as namespace_id,
           (array_agg(s.user_id order by s.place))[1] as user_id, (array_agg(s.agent_id order by s.place))[1] as agent_id,
           (array_agg(s.speaker order by s.place))[1] as speaker, (array_agg(s.language order by s.place))[1] as language,
           (array_agg(s.time_zone order by s.place))[1] as time_zone
      from unnest(p_sources) s
     group by s.ordinal
  ), item as (
    select i.*, (i.place - 1)::integer as ordinal
      from rows from (jsonb_to_recordset(p_memories) as (
             text text, type text, namespace text, "user" text, agent text, external_id text, summary text, heading text,
             speaker text, language text, importance real, confidence real, tier text, is_pinned boolean,
             valid_from timestamptz, valid_to timestamptz, occurred_at timestamptz, metadata jsonb, method text,
             model text, vector text, entities jsonb, edges jsonb)) with ordinality as i (
             text, type, namespace, user_id, agent, external_id, summary, heading, speaker, language, importance, confidence,
             tier, is_pinned, valid_from, valid_to, occurred_at, metadata, method, model, vector, entities, edges, place)
  ), completed as (
    select i.ordinal, i.text, coalesce(i.type, 'observation') as type, coalesce(n.namespace_id, h.namespace_id) as namespace_id,
           coalesce(i.user_id, h.user_id) as user_id, coalesce(i.agent, h.agent_id) as agent_id, i.external_id, i.summary,
           i.heading, coalesce(i.speaker, h.speaker) as speaker, lower(coalesce(i.language, h.language)) as language,
           coalesce(i.importance, 5) as importance, coalesce(i.confidence, 1) as confidence,
           coalesce(i.tier, 'long_term') as tier, coalesce(i.is_pinned, false) as is_pinned, i.valid_from, i.valid_to,
           coalesce(i.occurred_at, h.occurred_at, p_now) as occurred_at, coalesce(h.time_zone, 'UTC') as time_zone,
           coalesce(i.metadata, '{}') as metadata, coalesce(i.method, 'verbatim') as method, i.model, i.vector,
           coalesce(i.entities, '[]') as entities, coalesce(i.edges, '[]') as edges, memdb._content_hash(i.text) as content_hash,
           h.session_id, h.sequence, h.event_id, h.trust, coalesce(h.sources, 0) as sources
      from item i
      left join inherited h on h.ordinal = i.ordinal
      left join memdb.namespace n on n.tenant_id = p_tenant and n.path = i.namespace
  )
  select c.ordinal, c.text, c.type, c.namespace_id, c.user_id, c.agent_id, c.external_id, c.summary,
         coalesce(c.heading, memdb._heading(c.language, c.occurred_at at time zone c.time_zone, c.speaker)), c.language,
         c.importance, c.confidence, c.tier, c.is_pinned, c.valid_from, c.valid_to, c.occurred_at, c.metadata, c.method,
         c.model, c.vector, c.entities, c.edges, c.content_hash, c.session_id, c.sequence, c.event_id, c.trust
    from completed c
   where case
     when c.sources = 0 then
       memdb._raise('MD002', 'a memory needs a source', jsonb_build_object('index', c.ordinal, 'field', 'sources'),
         'Append the event it comes from, and name it in sources; or name the memories it is derived from.')
     when char_length(c.text) > 65536 then
       memdb._raise('MD003', 'a memory holds at most 65,536 characters', jsonb_build_object('index', c.ordinal, 'field', 'text'),
         'Keep the long text as an event of kind document and record condensed memories that rest on it.')
     else memdb._check_memory(c.ordinal, c.text, c.type, c.user_id, c.external_id, c.summary, c.heading, c.importance,
            c.confidence, c.tier, c.valid_from, c.valid_to, c.occurred_at, c.metadata, c.method, c.entities, c.edges) end;
end;
comment on function memdb._memory_items (integer, jsonb, memdb._memory_source[], timestamptz) is 'A batch of memory objects as typed rows, completed from their sources.';
