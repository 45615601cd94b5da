-- Why: from a memory down to the events it rests on, with the words quoted.
--
-- Candidates by definer, content through security: _premise_rows walks premises the caller
-- cannot read itself and gives back ids, those of hidden sources left out; the public
-- functions join the words under the caller's own row security.

-- _premise_rows: the premises below some memory versions, as ids, hidden sources without id.
--
-- p_versions goes beside p_memory_ids; null (the array or an entry) means the current version.
-- Depth 1 is what the given memories rest on. Each premise of each justification of each
-- conclusion comes once, at its smallest depth, so shared sub-chains and cycles end; path
-- leads from a given memory to the conclusion. Below a hidden source nothing is followed.
-- Given memories the caller may not read vanish. p_agent narrows what may be read to what that
-- agent may. p_belief_at: reasons as they were known then, supports being those that held then;
-- null = now, supports being the one a memory stands on. Each wave keeps one row per memory
-- version: cost = depth x versions met.
create or replace function memdb._premise_rows (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[]   default null,
  p_max_depth  integer     default 1,
  p_agent      text        default null,
  p_belief_at  timestamptz default null
)
  returns table (
    depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint, ordinal smallint,
    method text, supports boolean, is_hidden boolean, event_id bigint, span_from integer, span_to integer,
    memory_id bigint, memory_version integer, path bigint[])
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, p_agent);
  return query
    with recursive reached as (
      select 1 as depth, m.memory_id, coalesce(a.version, m.version) as version, array[m.memory_id] as path
        from unnest(p_memory_ids, p_versions) a (memory_id, version)
        join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id
       where v_namespaces is null or m.namespace_id = any (v_namespaces)
      union all
      select s.depth, s.memory_id, s.version, s.path
        from (select r.depth + 1 as depth, p.memory_id, p.memory_version as version, r.path || p.memory_id as path,
                     row_number() over (partition by p.memory_id, p.memory_version order by r.path) as place
                from reached r
                join memdb.justification j
                  on j.tenant_id = p_tenant and j.memory_id = r.memory_id and j.version = r.version
                 and (p_belief_at is null or j.recorded_at <= p_belief_at)
                join memdb.premise p
                  on p.tenant_id = p_tenant and p.justification_id = j.justification_id
                 and (p_belief_at is null or p.added_at is null or p.added_at <= p_belief_at)
                join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
               where r.depth < p_max_depth
                 and (v_namespaces is null or m.namespace_id = any (v_namespaces))) s
       where s.place = 1),
    conclusion as (
      select distinct on (r.memory_id, r.version) r.depth, r.memory_id, r.version, r.path
        from reached r
       order by r.memory_id, r.version, r.depth, r.path)
    select c.depth, c.memory_id, c.version, j.justification_id, p.ordinal, j.method, h.supports, h.is_hidden,
           case when not h.is_hidden then p.event_id end, case when not h.is_hidden then p.span_from end,
           case when not h.is_hidden then p.span_to end, case when not h.is_hidden then p.memory_id end,
           case when not h.is_hidden then p.memory_version end, c.path
      from conclusion c
      join memdb.justification j
        on j.tenant_id = p_tenant and j.memory_id = c.memory_id and j.version = c.version
       and (p_belief_at is null or j.recorded_at <= p_belief_at)
      join memdb.premise p
        on p.tenant_id = p_tenant and p.justification_id = j.justification_id
       and (p_belief_at is null or p.added_at is null or p.added_at <= p_belief_at)
      left join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
      left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
      cross join lateral (
        select not coalesce(coalesce(e.namespace_id, m.namespace_id) = any (v_namespaces), v_namespaces is null),
               case when p_belief_at is null then j.supports else memdb._held(p_tenant, j.justification_id, p_belief_at) end)
        h (is_hidden, supports)
     order by c.depth, c.path, c.version, h.supports desc, j.justification_id, p.ordinal;
end $$;
comment on function memdb._premise_rows (integer, bigint[], integer[], integer, text, timestamptz) is 'The premises below some memory versions, as ids, hidden sources without id.';

-- _explained_version: the version to explain: the one asked for, or the one of a time; MD103 where there is none.
create or replace function memdb._explained_version (
  p_tenant    integer,
  p_memory    bigint,
  p_version   integer,
  p_belief_at timestamptz,
  p_world_at  timestamptz
)
  returns integer
  language plpgsql stable
as $$
declare
  v_version integer;
begin
  if p_version is null and (p_belief_at is not null or p_world_at is not null) then
    select s.version into v_version from memdb._read_states(p_tenant, array[p_memory], p_belief_at, p_world_at) s;
  else
    select v.version into v_version
      from memdb.shown_memory m
      join memdb.shown_memory_version v
        on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = coalesce(p_version, m.version)
     where m.tenant_id = p_tenant and m.memory_id = p_memory;
  end if;
  if v_version is null then
    perform memdb._raise('MD103', 'no such memory, or not at that time',
      jsonb_build_object('memory', p_memory, 'version', p_version),
      'Use a memory id that recall, list_memories or record_memories returned for this tenant.');
  end if;
  return v_version;
end $$;
comment on function memdb._explained_version (integer, bigint, integer, timestamptz, timestamptz) is 'The version to explain: the one asked for, or the one of a time; MD103 where there is none.';

-- _version_status: the status a version of a memory had at a time.
create or replace function memdb._version_status (p_tenant integer, p_memory bigint, p_version integer, p_at timestamptz)
  returns text
  language sql stable
begin atomic
  select case when exists (select from memdb.memory_version v
                            where v.tenant_id = p_tenant and v.memory_id = p_memory and v.version > p_version and v.recorded_at <= p_at)
              then 'superseded'
              else coalesce((select b.status from memdb.belief b
                              where b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = p_memory
                                and b.from_at <= p_at and (b.to_at is null or b.to_at > p_at)), 'active') end;
end;
comment on function memdb._version_status (integer, bigint, integer, timestamptz) is 'The status a version of a memory had at a time.';

-- explain_memory: why a memory holds: every premise down to the events, with the words quoted.
--
-- One row per premise of each justification of each conclusion, once each; depth 1 is what the
-- asked version (p_version null = the current one) rests on, down to p_max_depth (1 to 100).
-- path leads from the asked memory to the conclusion. supports marks the justification the
-- conclusion stands on, or stood on before it fell. source is
--   event    event_id, kind, its text and the quoted span (all of it where none was named); an
--            event without text shows its output or input
--   memory   memory_id, memory_version, type and text; a version no longer current is superseded
--   hidden   a source in a namespace the caller may not read: nothing more is told
-- status is active, stale, superseded, contradicted, retracted or corrected, as of now.
-- p_as_of_belief: why it was held then: the version, reasons and statuses of that time; supports
-- marks every justification that held. p_as_of_world: the version that spoke of that day.
-- Runs as the caller: words come through row security. Raises MD001 for a depth out of range,
-- MD103 where the memory or version does not exist for the caller, MD301. Cost: grows with the
-- premises below the memory; each is read once.
create or replace function memdb.explain_memory (
  p_tenant       integer,
  p_memory       bigint,
  p_version      integer     default null,
  p_max_depth    integer     default 10,
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null
)
  returns table (
    depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint, method text,
    supports boolean, source text, event_id bigint, memory_id bigint, memory_version integer, kind_or_type text,
    status text, text text, quote text, speaker text, session text, occurred_at timestamptz, path bigint[])
  language plpgsql stable rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_version integer;
begin
  perform memdb._authorize(p_tenant, false);
  if p_max_depth between 1 and 100 is not true then
    perform memdb._raise('MD001', 'a depth is 1 to 100', jsonb_build_object('field', 'max_depth'));
  end if;
  v_version := memdb._explained_version(p_tenant, p_memory, p_version, p_as_of_belief, p_as_of_world);
  return query
    select p.depth, p.conclusion_id, p.conclusion_version, p.justification_id, p.method, p.supports,
           case when e.event_id is not null then 'event' when v.memory_id is not null then 'memory' else 'hidden' end,
           e.event_id, v.memory_id, v.version, coalesce(e.kind, m.type),
           case when e.event_id is not null then coalesce(b.status, 'active')
                when p_as_of_belief is not null and v.memory_id is not null
                  then memdb._version_status(p_tenant, v.memory_id, v.version, p_as_of_belief)
                when v.version = m.version then m.status
                when v.version <> m.version then 'superseded' end,
           coalesce(w.words, v.text),
           case when p.span_from is null then w.words
                else substring(e.text from p.span_from + 1 for p.span_to - p.span_from) end,
           e.speaker, s.external_id, coalesce(e.occurred_at, m.occurred_at), p.path
      from memdb._premise_rows(p_tenant, array[p_memory], array[v_version], p_max_depth, null, p_as_of_belief)
           with ordinality p (depth, conclusion_id, conclusion_version, justification_id, ordinal, method, supports,
                              is_hidden, event_id, span_from, span_to, memory_id, memory_version, path, place)
      left join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
      left join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = e.event_id
       and case when p_as_of_belief is null then b.to_at is null
                else b.from_at <= p_as_of_belief and (b.to_at is null or b.to_at > p_as_of_belief) end
      left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
      left join memdb.memory_version v
        on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = p.memory_version
      left join memdb.session s on s.tenant_id = p_tenant and s.session_id = coalesce(e.session_id, m.session_id)
      cross join lateral (select coalesce(nullif(e.text, ''), e.output::text, e.input::text)) w (words)
     order by p.place;
end $$;
comment on function memdb.explain_memory (integer, bigint, integer, integer, timestamptz, timestamptz) is 'Why a memory holds: every premise down to the events, with the words quoted.';

-- _explain_sources: the rows of explain_memory as JSON objects, each knowing where it nests.
--
-- key names the conclusion; child the memory whose own justifications go inside this source.
-- A memory met again goes inside its first mention only; the others say repeated.
create or replace function memdb._explain_sources (
  p_tenant    integer,
  p_memory    bigint,
  p_version   integer,
  p_max_depth integer,
  p_belief_at timestamptz
)
  returns table (
    depth integer, key text, child text, justification_id bigint, method text, supports boolean, place bigint,
    source jsonb)
  language sql stable rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
  with premise as (
    select r.*, r.conclusion_id || '/' || r.conclusion_version as key, r.memory_id || '/' || r.memory_version as source_key,
           min(r.place) over (partition by r.memory_id, r.memory_version) as first_place
      from memdb.explain_memory(p_tenant, p_memory, p_version, p_max_depth, p_belief_at)
           with ordinality r (depth, conclusion_id, conclusion_version, justification_id, method, supports, source,
                              event_id, memory_id, memory_version, kind_or_type, status, text, quote, speaker,
                              session, occurred_at, path, place)),
  conclusion as (select p.key, min(p.depth) as depth from premise p group by p.key)
  select p.depth, p.key, case when n.is_first then p.source_key end, p.justification_id, p.method, p.supports, p.place,
         jsonb_strip_nulls(jsonb_build_object(
           'source', p.source, 'event_id', p.event_id,
           'kind', case when p.source = 'event' then p.kind_or_type end,
           'memory_id', p.memory_id, 'version', p.memory_version,
           'type', case when p.source = 'memory' then p.kind_or_type end,
           'status', p.status, 'text', p.text, 'quote', p.quote, 'speaker', p.speaker, 'session', p.session,
           'occurred_at', p.occurred_at,
           'repeated', case when c.key is not null and not n.is_first then true end))
    from premise p
    left join conclusion c on c.key = p.source_key
    cross join lateral (select c.depth = p.depth + 1 and p.place = p.first_place) n (is_first);
$$;
comment on function memdb._explain_sources (integer, bigint, integer, integer, timestamptz) is 'The rows of explain_memory as JSON objects, each knowing where it nests.';

-- explain_memory_json: why a memory holds, as one nested JSON object.
--
-- {memory_id, version, type, status, text, justifications: [{justification_id, method, supports,
-- sources: [...]}]}; a source of kind memory holds its own justifications in turn. A memory met
-- more than once is spelled out at its first mention and marked "repeated": true elsewhere, so
-- the object stays as small as the rows; below p_max_depth sources have no justifications.
-- Arguments, rights and errors as explain_memory.
create or replace function memdb.explain_memory_json (
  p_tenant       integer,
  p_memory       bigint,
  p_version      integer     default null,
  p_max_depth    integer     default 10,
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null
)
  returns jsonb
  language plpgsql stable
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_version integer;
  v_sources jsonb[];
  v_done    jsonb := '{}';
  v_depth   integer;
begin
  perform memdb._authorize(p_tenant, false);
  v_version := memdb._explained_version(p_tenant, p_memory, p_version, p_as_of_belief, p_as_of_world);
  v_sources := array(select to_jsonb(s) from memdb._explain_sources(p_tenant, p_memory, v_version, p_max_depth, p_as_of_belief) s);
  v_depth := (select max((s.item ->> 'depth')::integer) from unnest(v_sources) s (item));
  -- From the ground up: what a source rests on is complete before the source is.
  while v_depth > 0 loop
    v_done := v_done || (
      select jsonb_object_agg(c.key, c.justifications)
        from (select j.key, jsonb_agg(jsonb_build_object('justification_id', j.justification_id, 'method', j.method,
                       'supports', j.supports, 'sources', j.sources) order by j.supports desc, j.justification_id)
                       as justifications
                from (select s.key, s.justification_id, s.method, s.supports,
                             jsonb_agg(case when s.child is null then s.source
                                            else s.source || jsonb_build_object('justifications', v_done -> s.child) end
                                       order by s.place) as sources
                        from unnest(v_sources) u (item)
                        cross join lateral jsonb_to_record(u.item) s (
                          depth integer, key text, child text, justification_id bigint, method text,
                          supports boolean, place bigint, source jsonb)
                       where s.depth = v_depth
                       group by s.key, s.justification_id, s.method, s.supports) j
               group by j.key) c);
    v_depth := v_depth - 1;
  end loop;
  return (select jsonb_build_object(
                   'memory_id', m.memory_id, 'version', v.version, 'type', m.type,
                   'status', memdb._version_status(p_tenant, p_memory, v_version, coalesce(p_as_of_belief, 'infinity')), 'text', v.text,
                   'justifications', coalesce(v_done -> (v.memory_id || '/' || v.version), '[]'))
            from memdb.shown_memory m
            join memdb.shown_memory_version v
              on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = v_version
           where m.tenant_id = p_tenant and m.memory_id = p_memory);
end $$;
comment on function memdb.explain_memory_json (integer, bigint, integer, integer, timestamptz, timestamptz) is 'Why a memory holds, as one nested JSON object.';
