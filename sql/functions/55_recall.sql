-- recall: the memories that help to answer a question, best first, each with its sources.
--
-- Candidates by definer, content through security: _recall_candidates checks the caller's rights
-- and gives back ids and numbers; recall joins the words under the caller's own row security.

-- _check_recall: refuse arguments of recall that make no sense.
create or replace function memdb._check_recall (
  p_query text, p_vector real[], p_types text[], p_k integer, p_legs text[], p_hops integer, p_include text[],
  p_budget_ms integer, p_tiers text[], p_from timestamptz, p_to timestamptz, p_entities text[], p_metadata jsonb,
  p_expand text, p_offset integer
)
  returns void
  language plpgsql immutable
as $$
declare
  v_field text := case
    when coalesce(p_query, '') collate pg_catalog.pg_c_utf8 !~ '\S' and p_vector is null then 'query'
    when p_k between 1 and 1000 is not true then 'k'
    when p_hops between 0 and 3 is not true then 'hops'
    when not p_types <@ array['observation', 'reasoning', 'action', 'result', 'fact', 'preference', 'constraint', 'decision', 'summary']
      then 'types'
    when cardinality(p_legs) = 0 or not p_legs <@ array['keyword', 'vector', 'neighbour', 'graph', 'fresh'] then 'legs'
    when not p_include <@ array['stale', 'contradicted', 'retracted', 'archive'] then 'include'
    when p_budget_ms < 1 then 'budget_ms'
    when not p_tiers <@ array['working', 'short_term', 'long_term', 'archive'] then 'tiers'
    when p_from >= p_to then 'from'
    when cardinality(p_entities) > 1000 then 'entities'
    when jsonb_typeof(p_metadata) <> 'object' then 'metadata'
    when p_expand <> 'reasons' then 'expand'
    when p_offset between 0 and 1000 is not true then 'offset' end;
begin
  if v_field is not null then
    perform memdb._raise('MD001', format('argument "%s" is empty or out of range', v_field), jsonb_build_object('field', v_field),
      'A query or a vector is needed; k is 1 to 1,000, hops 0 to 3; types are memory types; legs are keyword, vector, neighbour, '
      'graph, fresh; include takes stale, contradicted, retracted, archive; a budget is 1 ms or more; tiers are working, short_term, '
      'long_term, archive; from is before to; at most 1,000 entities; metadata is an object; expand is reasons; offset is 0 to 1,000.');
  end if;
end $$;
comment on function memdb._check_recall (text, real[], text[], integer, text[], integer, text[], integer, text[], timestamptz, timestamptz, text[], jsonb, text, integer) is 'Refuse arguments of recall that make no sense.';

-- _find_sessions: the sessions of that id in the readable namespaces: at most one in each.
--
-- Raises MD106 where there is none.
create or replace function memdb._find_sessions (p_tenant integer, p_namespaces integer[], p_session text)
  returns bigint[]
  language plpgsql stable
as $$
declare
  v_ids bigint[];
begin
  select array_agg(s.session_id) into v_ids
    from memdb.session s
   where s.tenant_id = p_tenant and s.external_id = p_session
     and s.namespace_id = any (coalesce(p_namespaces,
           array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant)));
  if v_ids is null then
    perform memdb._raise('MD106', 'no such session', jsonb_build_object('session', left(p_session, 600)),
      'A session appears with its first event; check the id and the namespaces.');
  end if;
  return v_ids;
end $$;
comment on function memdb._find_sessions (integer, integer[], text) is 'The sessions of that id in the readable namespaces: at most one in each.';

-- _recall_candidates: what recall would return, as ids and numbers.
--
-- Arguments as in recall, which see. Rights are checked here. score is 0 to 1, the odds of the
-- standardised sum; legs holds rank and score per leg that found the row. The last row has neither a
-- memory nor an event: its legs are what _timing tells.
-- A page (p_offset) is cut out of the whole ranking; where that ends, out of the one of 1,000 hits a
-- leg, less what came before. So pages of one size follow each other without gap and repetition.
create or replace function memdb._recall_candidates (
  p_tenant     integer,
  p_query      text,
  p_vector     real[],
  p_namespaces text[],
  p_user       text,
  p_agent      text,
  p_session    text,
  p_types      text[],
  p_k          integer,
  p_legs       text[],
  p_hops       integer,
  p_include    text[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_budget_ms  integer     default null,
  p_tiers      text[]      default null,
  p_from       timestamptz default null,
  p_to         timestamptz default null,
  p_entities   text[]      default null,
  p_topic      bigint      default null,
  p_metadata   jsonb       default null,
  p_expand     text        default null,
  p_offset     integer     default 0,
  p_factors    jsonb       default null
)
  returns table (memory_id bigint, version integer, event_id bigint, score real, legs jsonb)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, public, pg_temp
  -- Planned once per session: planning anew would cost more than running.
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_deadline   timestamptz := clock_timestamp() + p_budget_ms * interval '1 millisecond';
  v_legs       text[] := coalesce(p_legs, array['keyword', 'vector', 'neighbour', 'graph', 'fresh']);
  v_statuses   text[] := coalesce(p_include, '{}') || 'active'::text;
  v_depth      integer := greatest(50, p_k);
  v_namespaces integer[];
  v_sessions   bigint[];
  v_also       memdb._recall_filter;
  v_weights    memdb._recall_weights;
  v_model      integer;
  v_vector     halfvec;
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._check_recall(p_query, p_vector, p_types, p_k, p_legs, p_hops, p_include, p_budget_ms, p_tiers, p_from, p_to,
    p_entities, p_metadata, p_expand, p_offset);
  -- What is not read for words is not read for dates and names either.
  p_query := coalesce(left(p_query, 8000), '');
  v_namespaces := memdb._readable(p_tenant, p_namespaces, p_agent);
  v_weights := memdb._resolve_weights(p_tenant, p_namespaces, p_factors);
  if p_session is not null then
    v_sessions := memdb._find_sessions(p_tenant, v_namespaces, p_session);
  end if;
  if 'archive' = any (p_tiers) then
    v_statuses := v_statuses || 'archive'::text;
  end if;
  if num_nonnulls(p_session, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata) > 0 then
    v_also := memdb._narrow(p_tenant, v_namespaces, v_sessions, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata);
  end if;
  -- Rows of what is being forgotten may still be there; without an erasure no leg looks for them.
  if exists (select from memdb.erasure_receipt r where r.tenant_id = p_tenant and r.state = 'erasing') then
    v_also.hides := true;
  end if;
  if p_vector is not null and 'vector' = any (v_legs) then
    select q.model_id, q.vector into v_model, v_vector from memdb._query_vector(p_tenant, p_vector) q;
  end if;
  if p_offset = 0 then
    return query
      select s.* from memdb._search(p_tenant, v_namespaces, p_user, v_sessions, p_types, v_statuses, v_also, p_agent, p_query,
        v_model, v_vector, v_legs, p_hops, v_depth, p_k, p_belief_at, p_world_at, v_deadline, v_weights) s;
    return;
  end if;
  return query
    with first as materialized (
      select s.*
        from memdb._search(p_tenant, v_namespaces, p_user, v_sessions, p_types, v_statuses, v_also, p_agent, p_query, v_model,
               v_vector, v_legs, p_hops, v_depth, 1000000, p_belief_at, p_world_at, v_deadline, v_weights)
             with ordinality s (memory_id, version, event_id, score, legs, place)),
    deep as (
      select s.*
        from memdb._search(p_tenant, v_namespaces, p_user, v_sessions, p_types, v_statuses, v_also, p_agent, p_query, v_model,
               v_vector, v_legs, p_hops, 1000, 1000000, p_belief_at, p_world_at, v_deadline, v_weights)
             with ordinality s (memory_id, version, event_id, score, legs, place)
       where (select count(*) - 1 from first f) < p_offset + p_k
         and not exists (select from first f where f.memory_id = s.memory_id or f.event_id = s.event_id)),
    page as (
      select r.*
        from (select 1 as part, f.* from first f union all select 2, d.* from deep d) r
       where coalesce(r.memory_id, r.event_id) is not null
       order by r.part, r.place
      offset p_offset
       limit p_k)
    select r.memory_id, r.version, r.event_id, r.score, r.legs
      from (select p.* from page p union all select 3, f.* from first f where coalesce(f.memory_id, f.event_id) is null) r
     order by r.part, r.place;
end $$;
comment on function memdb._recall_candidates (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb, text, integer, jsonb) is 'What recall would return, as ids and numbers.';

-- _recall_sources: what each hit rests on, as recall shows it.
--
-- One JSON array per memory version, of at most 20 premises: {event_id, kind, speaker, session,
-- occurred_at, quote}, {memory_id, version, text}, or {hidden: true} for a source in a namespace the
-- caller may not read. The quote is the span named, else the beginning of the text, 1,000
-- characters. A source that does not hold (any more) has a status: it stands beside others that do. With a
-- time given, premises as they were known then, those of derivations that held first, and each event with
-- its status then. What p_agent may not read is hidden too. Runs as the caller.
create or replace function memdb._recall_sources (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_belief_at  timestamptz default null,
  p_agent      text        default null
)
  returns table (memory_id bigint, version integer, sources jsonb)
  language sql stable rows 10
begin atomic
  select p.conclusion_id, p.conclusion_version,
         jsonb_agg(case
           when e.event_id is not null then jsonb_build_object(
             'event_id', e.event_id, 'kind', e.kind, 'speaker', e.speaker, 'session', s.external_id, 'occurred_at', e.occurred_at,
             'quote', case when p.span_from is not null then substring(e.text from p.span_from + 1 for p.span_to - p.span_from)
                           else left(coalesce(nullif(e.text, ''), e.output::text, e.input::text), 1000) end)
             || coalesce((
                  select jsonb_build_object('status', b.status) from memdb.belief b
                   where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = e.event_id
                     and b.from_at <= coalesce(p_belief_at, 'infinity') and (b.to_at is null or b.to_at > p_belief_at)),
                case when p_belief_at is null then '{}' else '{"status": "active"}' end::jsonb)
           when v.memory_id is not null then
             jsonb_build_object('memory_id', v.memory_id, 'version', v.version, 'text', left(v.text, 1000))
             || coalesce((
                  select jsonb_build_object('status', case when m.version = v.version then m.status else 'superseded' end)
                    from memdb.memory m
                   where m.tenant_id = p_tenant and m.memory_id = v.memory_id and p_belief_at is null
                     and (m.version <> v.version or m.status <> 'active')), '{}')
           else jsonb_build_object('hidden', true) end
           order by p.supports desc, p.justification_id, p.ordinal)
    from (select q.*, row_number() over (partition by q.conclusion_id order by q.supports desc, q.justification_id, q.ordinal) as place
            from memdb._premise_rows(p_tenant, p_memory_ids, p_versions, 1, p_agent, p_belief_at) q) p
    left join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
    left join memdb.session s on s.tenant_id = p_tenant and s.session_id = e.session_id
    left join memdb.memory_version v
      on v.tenant_id = p_tenant and v.memory_id = p.memory_id and v.version = p.memory_version
   where p.place <= 20
   group by p.conclusion_id, p.conclusion_version;
end;
comment on function memdb._recall_sources (integer, bigint[], integer[], timestamptz, text) is 'What each hit rests on, as recall shows it.';

-- _log_recall: write one row of the recall log and give back its id; null on a standby, and where the disk is full.
create or replace function memdb._log_recall (
  p_tenant     integer,
  p_namespaces text[],
  p_user       text,
  p_agent      text,
  p_query      text,
  p_arguments  jsonb,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_scores     real[],
  p_legs       jsonb,
  p_elapsed_ms real,
  p_timing     jsonb default null
)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now timestamptz;
  v_id  bigint;
begin
  perform memdb._authorize(p_tenant, false);
  if pg_is_in_recovery() then
    return null;
  end if;
  v_now := memdb.current_time();
  begin
    insert into memdb.recall as r (tenant_id, recorded_at, namespace_ids, user_id, agent_id, query, arguments, memory_ids, versions,
                                   scores, legs, elapsed_ms, timing, is_degraded)
      values (p_tenant, v_now, memdb._readable(p_tenant, p_namespaces, p_agent), left(p_user, 200), left(p_agent, 200), left(p_query, 8000), p_arguments,
              p_memory_ids, p_versions, p_scores, p_legs, p_elapsed_ms, p_timing, coalesce((p_timing -> 'degraded')::boolean, false))
      returning r.recall_id into v_id;
  exception when disk_full then
    -- The answer is found and needs no room; a memory that cannot be asked helps nobody to make some.
    return null;
  end;
  return v_id;
end $$;
comment on function memdb._log_recall (integer, text[], text, text, text, jsonb, bigint[], integer[], real[], jsonb, real, jsonb) is 'Write one row of the recall log and give back its id; null on a standby, and where the disk is full.';

-- recall: the memories that help to answer a question, best first, each with its sources.
--
-- p_query: the question as it stands, in any language. p_vector: its vector by the tenant's active
-- model; without it there is no vector leg. At least one of the two is needed.
-- p_namespaces: these, exactly; null = all the caller may read. p_user: that user's memories and
-- those without a user; null = everybody's. p_agent: as this agent may read, weighted by its
-- grants. p_session, p_types: only memories of that session, of these types.
-- p_k: at most so many, 1 to 1,000. p_legs: which of keyword, vector, neighbour, graph, fresh; null
-- = all. p_hops: how far the graph leg walks, 0 to 3. p_include: also stale, contradicted,
-- retracted, archive; without it only current, active memories come back. p_log: keep a row of it.
-- p_budget_ms: leave out legs that would not fit. p_tiers, p_from and p_to (occurred_at from and
-- before), p_entities (names), p_topic, p_metadata (contained): further filters. p_expand: 'reasons'
-- with each hit. p_offset: hits passed over, for pages. p_report: true for a first row of rank 0
-- that holds recall_id and timing alone, whatever was found. p_factors: {name: exponent} of the factors a
-- memory's odds are multiplied by (40_score), 0 to 4, "tiers" {tier: 0.1 to 10}, "freshness_half_life_days";
-- what it does not name is as the policy recall_factors says, of the namespace where one is named.
-- p_as_of_belief: what was believed then: versions, statuses, relations, and what had been said;
-- p_as_of_world: the versions that speak of that day (39_history). Either makes text, type, status,
-- importance, confidence and sources those of then (events among them with their status then);
-- tier, session and user have no history. A time to come is now.
--
-- Returns, best first: rank from 1; memory_id and its current version, or for something said and
-- not extracted yet event_id alone; score 0 to 1, comparable within one recall; legs {leg: {rank,
-- score}} for the legs that found it; sources [{event_id, kind, speaker, session, occurred_at,
-- quote} | {memory_id, version, text} | {hidden: true}], at most 20, with a status where one does not hold;
-- recall_id, the same in every row, null where nothing was logged. What was asked for although it
-- does not hold is labelled by status and put behind.
-- Days a query names are days in the time zone of the database session. On a standby nothing is
-- written; nor where the disk is full, which timing tells by unlogged. Raises MD001, MD004 and MD105 (vector), MD102, MD106, MD301, MD302.
-- Cost: bounded by p_k (at least 50) for all legs but the vector leg, which measures every vector
-- of the scope. About the past, also every version that holds a word of the query is read.
create or replace function memdb.recall (
  p_tenant       integer,
  p_query        text,
  p_vector       real[]      default null,
  p_namespaces   text[]      default null,
  p_user         text        default null,
  p_agent        text        default null,
  p_session      text        default null,
  p_types        text[]      default null,
  p_k            integer     default 10,
  p_legs         text[]      default null,
  p_hops         integer     default 1,
  p_include      text[]      default null,
  p_log          boolean     default true,
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null,
  p_budget_ms    integer     default null,
  p_tiers        text[]      default null,
  p_from         timestamptz default null,
  p_to           timestamptz default null,
  p_entities     text[]      default null,
  p_topic        bigint      default null,
  p_metadata     jsonb       default null,
  p_expand       text        default null,
  p_offset       integer     default 0,
  p_report       boolean     default false,
  p_factors      jsonb       default null
)
  returns table (
    rank integer, memory_id bigint, version integer, event_id bigint, score real, text text, summary text, type text,
    status text, namespace text, user_id text, agent_id text, importance real, confidence real, occurred_at timestamptz,
    legs jsonb, sources jsonb, recall_id bigint, reasons jsonb, timing jsonb)
  language plpgsql volatile rows 10
  set search_path = pg_catalog, memdb, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_begin   timestamptz := clock_timestamp();
  v_hits    record;
  v_states  record;
  v_reasons jsonb := '{}';
begin
  perform set_config('jit', 'off', true);
  select array_agg(c.memory_id) filter (where c.score is not null) as memory_ids, array_agg(c.version) filter (where c.score is not null) as versions,
         array_agg(c.event_id) filter (where c.score is not null) as event_ids, array_agg(c.score) filter (where c.score is not null) as scores,
         array_agg(c.legs) filter (where c.score is not null) as legs, min(c.legs::text) filter (where c.score is null)::jsonb as timing
    into v_hits
    from memdb._cached_candidates(p_tenant, p_query, p_vector, p_namespaces, p_user, p_agent, p_session, p_types, p_k, p_legs,
           p_hops, p_include, p_as_of_belief, p_as_of_world, p_budget_ms, p_tiers, p_from, p_to, p_entities, p_topic,
           p_metadata, p_expand, p_offset, p_factors) c;
  if p_expand = 'reasons' then  -- before the log: a transaction that has written uses no cache
    select coalesce(jsonb_object_agg(r.memory_id, r.reasons), '{}') into v_reasons
      from memdb._reason_clusters(p_tenant, v_hits.memory_ids, v_hits.versions, p_agent, p_as_of_belief) r;
    v_hits.timing := v_hits.timing || jsonb_build_object('reasons_kept', current_setting('memdb.expansion', true) = 'kept');
  end if;
  v_hits.timing := v_hits.timing || jsonb_build_object('total_ms', round(1000 * extract(epoch from clock_timestamp() - v_begin), 2));
  if p_log then
    recall_id := memdb._log_recall(p_tenant, p_namespaces, p_user, p_agent, p_query,
      jsonb_strip_nulls(jsonb_build_object('session', p_session, 'types', p_types, 'k', p_k, 'legs', p_legs, 'hops', p_hops, 'include', p_include,
        'vector', p_vector is not null, 'as_of_belief', p_as_of_belief, 'as_of_world', p_as_of_world, 'budget_ms', p_budget_ms, 'tiers', p_tiers,
        'from', p_from, 'to', p_to, 'entities', p_entities, 'topic', p_topic, 'metadata', p_metadata, 'expand', p_expand,
        'offset', nullif(p_offset, 0), 'factors', p_factors)), coalesce(v_hits.memory_ids, '{}'), coalesce(v_hits.versions, '{}'),
      coalesce(v_hits.scores, '{}'), coalesce(to_jsonb(v_hits.legs), '[]'), (1000 * extract(epoch from clock_timestamp() - v_begin))::real, v_hits.timing);
    v_hits.timing := v_hits.timing || case when recall_id is null and not pg_is_in_recovery() then '{"unlogged": true}' else '{}' end::jsonb;
  end if;
  if p_report then
    rank := 0;
    timing := v_hits.timing;
    return next;
  end if;
  if v_hits.scores is null then
    return;
  end if;
  -- Asked only about the past: even not to be run, it would be set up every time.
  select null::bigint[] as memory_ids, null::text[] as statuses into v_states;
  if p_as_of_belief is not null or p_as_of_world is not null then
    select array_agg(r.memory_id) as memory_ids, array_agg(r.status) as statuses into v_states
      from memdb._read_states(p_tenant, v_hits.memory_ids, p_as_of_belief, p_as_of_world) r;
  end if;
  return query
    select (row_number() over (order by h.place))::integer + p_offset, h.memory_id, h.version, h.event_id, h.score,
           coalesce(v.text, nullif(e.text, ''), e.output::text, e.input::text), v.summary, coalesce(v.replaced ->> 'type', m.type, e.kind),
           coalesce(v_states.statuses[array_position(v_states.memory_ids, h.memory_id)], m.status, 'active'), n.path,
           coalesce(m.user_id, e.user_id), coalesce(m.agent_id, e.agent_id),
           coalesce((v.replaced ->> 'importance')::real, m.importance), coalesce((v.replaced ->> 'confidence')::real, m.confidence),
           coalesce((v.replaced ->> 'occurred_at')::timestamptz, m.occurred_at, e.occurred_at), h.legs,
           coalesce(s.sources, case when e.event_id is not null then jsonb_build_array(jsonb_build_object(
             'event_id', e.event_id, 'kind', e.kind, 'speaker', e.speaker, 'session', o.external_id, 'occurred_at', e.occurred_at,
             'quote', left(e.text, 1000))) end, '[]'), recall_id, v_reasons -> h.memory_id::text, null::jsonb
      from unnest(v_hits.memory_ids, v_hits.versions, v_hits.event_ids, v_hits.scores, v_hits.legs) with ordinality
           h (memory_id, version, event_id, score, legs, place)
      left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = h.memory_id
      left join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = h.version
      left join memdb.event e on e.tenant_id = p_tenant and e.event_id = h.event_id
      left join memdb.session o on o.tenant_id = p_tenant and o.session_id = e.session_id
      left join memdb._recall_sources(p_tenant, v_hits.memory_ids, v_hits.versions, p_as_of_belief, p_agent) s on s.memory_id = h.memory_id
      left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = coalesce(m.namespace_id, e.namespace_id)
     where v.memory_id is not null or e.event_id is not null
     order by h.place;
end $$;
comment on function memdb.recall (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], boolean, timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb, text, integer, boolean, jsonb) is 'The memories that help to answer a question, best first, each with its sources.';
