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

-- _source_flaw: what is wrong with the form of a source; null where it is sound.
create or replace function memdb._source_flaw (p_source jsonb)
  returns text
  language sql stable parallel safe
begin atomic
  select case
    when jsonb_typeof(p_source) is distinct from 'object' then 'a source is an object'
    when p_source - array['event_id', 'memory_id', 'version', 'quote', 'span'] <> '{}' then 'a source has an unknown field'
    when (p_source ->> 'event_id' is null) = (p_source ->> 'memory_id' is null) then 'a source is an event or a memory'
    when not pg_input_is_valid(coalesce(p_source ->> 'event_id', p_source ->> 'memory_id'), 'bigint') then 'a source is named by its id'
    when p_source ->> 'memory_id' is null and p_source ->> 'version' is not null then 'an event has no versions'
    when not pg_input_is_valid(p_source ->> 'version', 'integer') then 'a version is a number'
    when p_source ->> 'event_id' is null and (p_source ->> 'quote' is not null or p_source ->> 'span' is not null)
      then 'words are quoted from events'
    when jsonb_typeof(p_source -> 'quote') not in ('string', 'null') then 'a quote is a text'
    when jsonb_typeof(p_source -> 'span') = 'array' and jsonb_array_length(p_source -> 'span') = 2
      and pg_input_is_valid(coalesce(p_source -> 'span' ->> 0, ''), 'integer')
      and pg_input_is_valid(coalesce(p_source -> 'span' ->> 1, ''), 'integer') then null
    when p_source ->> 'span' is not null then 'a span is [from, to]' end;
end;
comment on function memdb._source_flaw (jsonb) is 'What is wrong with the form of a source; null where it is sound.';

-- _memory_sources: the sources of every item of a batch, checked, with what a memory inherits from them.
--
-- p_readable are the namespaces the caller may read (null = all): a source outside them does
-- not exist for it. Raises MD104, MD103, MD005, MD003, MD001 with the item's index.
create or replace function memdb._memory_sources (
  p_tenant   integer,
  p_memories jsonb,
  p_readable integer[]
)
  returns setof memdb._memory_source
  language sql volatile rows 1000
begin atomic
  -- Each step for itself: put together, every expression would be worked out in each place it is used.
  with given as materialized (
    select i.ordinal::integer - 1 as ordinal, s.place, s.source, memdb._source_flaw(s.source) as flaw
      from jsonb_array_elements(p_memories) with ordinality i (item, ordinal)
      cross join jsonb_array_elements(case jsonb_typeof(i.item -> 'sources') when 'array' then i.item -> 'sources'
                                           when 'null' then '[]' else jsonb_build_array(i.item -> 'sources' -> 0) end)
           with ordinality s (source, place)
     where i.item ? 'sources'
  ), source as materialized (
    -- Fields of a source that has a flaw are not read: a cast could fail before the flaw is told.
    select g.ordinal, case when g.place <= 1000 then g.place::smallint end as place, g.flaw,
           (f.source ->> 'event_id')::bigint as event_id, (f.source ->> 'memory_id')::bigint as memory_id,
           (f.source ->> 'version')::integer as version, f.source ->> 'quote' as quote,
           (f.source -> 'span' ->> 0)::integer as span_from, (f.source -> 'span' ->> 1)::integer as span_to
      from given g
      cross join lateral (select case when g.flaw is null then g.source end) f (source)
  ), found as materialized (
    select s.ordinal, s.place, s.flaw, e.event_id, s.quote, e.text,
           coalesce(s.span_from, nullif(position(s.quote in e.text), 0) - 1) as span_from,
           coalesce(s.span_to, nullif(position(s.quote in e.text), 0) - 1 + char_length(s.quote)) as span_to,
           char_length(e.text) as length, m.memory_id, coalesce(s.version, m.version) as memory_version, v.version as known_version,
           coalesce(e.namespace_id, m.namespace_id) as namespace_id, coalesce(e.session_id, m.session_id) as session_id,
           coalesce(e.sequence, m.sequence) as sequence, coalesce(e.occurred_at, m.occurred_at) as occurred_at,
           e.time_zone, coalesce(e.user_id, m.user_id) as user_id, coalesce(e.agent_id, m.agent_id) as agent_id,
           e.speaker, coalesce(e.language, v.language) as language, coalesce(e.trust, m.trust) as trust,
           s.event_id as asked_event, s.memory_id as asked_memory
      from source s
      left join memdb.shown_event e
        on e.tenant_id = p_tenant and e.event_id = s.event_id
       and (p_readable is null or e.namespace_id = any (p_readable))
      left join memdb.shown_memory m
        on m.tenant_id = p_tenant and m.memory_id = s.memory_id
       and (p_readable is null or m.namespace_id = any (p_readable))
      left join memdb.shown_memory_version v
        on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = coalesce(s.version, m.version)
  )
  select f.ordinal, f.place, f.event_id, f.span_from, f.span_to, f.memory_id, f.memory_version, f.namespace_id,
         f.session_id, f.sequence, f.occurred_at, f.time_zone, f.user_id, f.agent_id, f.speaker, f.language, f.trust
    from found f
   where case
     when f.flaw is not null then
       memdb._raise('MD001', f.flaw, jsonb_build_object('index', f.ordinal, 'field', 'sources'),
         'A source is {event_id, quote or span: [from, to]} or {memory_id, version}; sources is an array of them.')
     when f.place is null then
       memdb._raise('MD003', 'a memory rests on at most 1,000 sources', jsonb_build_object('index', f.ordinal, 'field', 'sources'),
         'Record memories that sum up some of them each, and rest this one on those.')
     when f.asked_event is not null and f.event_id is null then
       memdb._raise('MD104', 'no such event', jsonb_build_object('index', f.ordinal, 'event_id', f.asked_event),
         'Append the event first; a source must be in the same tenant and readable.')
     when f.asked_memory is not null and f.known_version is null then
       memdb._raise('MD103', 'no such memory or version', jsonb_build_object('index', f.ordinal, 'memory_id', f.asked_memory),
         'A source must be in the same tenant and readable.')
     when (f.quote is not null and f.span_from is null)
       or not (f.span_from >= 0 and f.span_from < f.span_to and f.span_to <= f.length)
       or f.quote <> substr(f.text, f.span_from + 1, greatest(f.span_to - f.span_from, 0)) then
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
    when p_text collate pg_catalog.pg_c_utf8 !~ '[^[:space:]]' then 'text'
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
  return true;
end $$;
comment on function memdb._check_memory (integer, text, text, text, text, text, text, real, real, text, timestamptz, timestamptz, timestamptz, jsonb, text, jsonb, jsonb) is 'Refuse a memory whose fields are out of range; true when it is sound.';

-- _check_frame: refuse a memory of which the times, the metadata or the names around it are out of range; true when it is sound.
--
-- p_item is the item as it was given: "now" and "infinity" are times to PostgreSQL, but not to
-- whoever reads the memory later.
create or replace function memdb._check_frame (
  p_index integer, p_item jsonb, p_agent text, p_speaker text, p_language text, p_model text, p_metadata jsonb,
  p_valid_from timestamptz, p_valid_to timestamptz, p_occurred_at timestamptz
)
  returns boolean
  language plpgsql volatile
as $$
declare
  v_field text := case
    when p_agent = '' or char_length(p_agent) > 200 then 'agent'
    when char_length(p_speaker) > 200 then 'speaker'
    when char_length(p_language) > 35 then 'language'
    when char_length(p_model) > 200 then 'model' end;
begin
  if v_field is not null then
    perform memdb._raise('MD001', format('field "%s" is empty or too long', v_field),
      jsonb_build_object('index', p_index, 'field', v_field),
      'agent, speaker and model have at most 200 characters; language is ISO 639-1, such as en or zh.');
  end if;
  if octet_length(p_metadata::text) > 1048576 then
    perform memdb._raise('MD003', 'the metadata of a memory has at most 1 MiB', jsonb_build_object('index', p_index, 'field', 'metadata'),
      'Store it elsewhere and keep its address.');
  end if;
  v_field := case
    when p_item ->> 'occurred_at' !~ '^\s*[0-9]' or not memdb._is_moment(p_occurred_at) then 'occurred_at'
    when p_item ->> 'valid_from' !~ '^\s*[0-9]' or not memdb._is_moment(p_valid_from) then 'valid_from'
    when p_item ->> 'valid_to' !~ '^\s*[0-9]' or not memdb._is_moment(p_valid_to) then 'valid_to' end;
  if v_field is not null then
    perform memdb._raise('MD006', 'a time is a date between 4500 BC and the year 200,000',
      jsonb_build_object('index', p_index, 'field', v_field),
      'Give times as ISO 8601 with an offset; leave valid_from or valid_to out where it is open.');
  end if;
  return true;
end $$;
comment on function memdb._check_frame (integer, jsonb, text, text, text, text, jsonb, timestamptz, timestamptz, timestamptz) is 'Refuse a memory of which the times, the metadata or the names around it are out of range; true when it is sound.';

-- _item_hash: what makes two contents the same: of a fact the words, of what has a name of its own every character, and the metadata.
--
-- Whoever writes to a name again reads back what he wrote, and not what was there and is like it.
create or replace function memdb._item_hash (p_text text, p_external_id text, p_metadata jsonb)
  returns bytea
  language sql immutable parallel safe
begin atomic
  select case when p_external_id is null then memdb._content_hash(p_text)
              else substring(sha256(convert_to(p_text || E'\x1f' || coalesce(nullif(p_metadata, 'null'), '{}')::text, 'UTF8')) for 16) end;
end;
comment on function memdb._item_hash (text, text, jsonb) is 'What makes two contents the same: of a fact the words, of what has a name of its own every character, and the metadata.';

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
  -- One order for all: each order of its own would be a sort for each item.
  with inherited as (
    select s.ordinal, count(*) as sources, max(s.trust) as trust, min(s.occurred_at) as occurred_at,
           (array_agg(s.event_id order by s.place) filter (where s.event_id is not null))[1] as event_id,
           (array_agg(s.session_id order by s.place) filter (where s.session_id is not null))[1] as session_id,
           (array_agg(s.sequence order by s.place) filter (where s.session_id is not null))[1] as sequence,
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
             model text, vector text, entities jsonb, edges jsonb), jsonb_array_elements(p_memories)) with ordinality as i (
             text, type, namespace, user_id, agent, external_id, summary, heading, speaker, language, importance, confidence,
             tier, is_pinned, valid_from, valid_to, occurred_at, metadata, method, model, vector, entities, edges, given, place)
  ), completed as (
    select i.ordinal, i.given, i.text, coalesce(i.type, 'observation') as type, coalesce(n.namespace_id, h.namespace_id) as namespace_id,
           coalesce(i.user_id, h.user_id) as user_id, coalesce(i.agent, h.agent_id) as agent_id, i.external_id, i.summary,
           i.heading, coalesce(i.speaker, h.speaker) as speaker, lower(coalesce(i.language, h.language)) as language,
           coalesce(i.importance, 5) as importance, coalesce(i.confidence, 1) as confidence,
           coalesce(i.tier, 'long_term') as tier, coalesce(i.is_pinned, false) as is_pinned, i.valid_from, i.valid_to,
           coalesce(i.occurred_at, h.occurred_at, p_now) as occurred_at, coalesce(h.time_zone, 'UTC') as time_zone,
           coalesce(i.metadata, '{}') as metadata, coalesce(i.method, 'verbatim') as method, i.model, i.vector,
           coalesce(i.entities, '[]') as entities, coalesce(i.edges, '[]') as edges,
           memdb._item_hash(i.text, i.external_id, i.metadata) as content_hash,
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
            c.confidence, c.tier, c.valid_from, c.valid_to, c.occurred_at, c.metadata, c.method, c.entities, c.edges)
          and memdb._check_frame(c.ordinal, c.given, c.agent_id, c.speaker, c.language, c.model, c.metadata, c.valid_from,
                c.valid_to, c.occurred_at) end;
end;
comment on function memdb._memory_items (integer, jsonb, memdb._memory_source[], timestamptz) is 'A batch of memory objects as typed rows, completed from their sources.';
