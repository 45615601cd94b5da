-- Why recall answered as it did, and what became of a memory it did not return.

-- _recall_factors: what each of some memories had its odds multiplied by, name by name.
--
-- Those of 40_score to the power of their exponents; speaker and question are the signs of _pool, as
-- factors. Those that come to 1 are left out. p_scores, p_legs are those of a hit, null where it was none: what the graph leg
-- alone put where it stands had no sign of the query.
create or replace function memdb._recall_factors (
  p_tenant     integer,
  p_query      text,
  p_namespaces text[],
  p_agent      text,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_scores     real[],
  p_legs       jsonb[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_factors    jsonb
)
  returns table (memory_id bigint, factors jsonb)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_words      text := memdb._words(p_query);
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, null);
  return query
    select m.memory_id, (select coalesce(jsonb_object_agg(f.name, round(exp(f.log)::numeric, 4)), '{}')
                           from (values
                             ('importance', l.importance), ('reliability', l.reliability), ('status', l.status), ('tier', l.tier),
                             ('namespace', l.namespace), ('freshness', l.freshness), ('centrality', l.centrality), ('strength', l.strength),
                             ('speaker', case when not h.is_by_graph and memdb._is_named(e.speaker, p_query, v_words) then 0.4 end),
                             ('question', case when not h.is_by_graph and right(rtrim(right(v.text, 20), E' \t\r\n'), 1) in ('?', '？') then -0.3 end))
                             f (name, log)
                          where round(exp(f.log)::numeric, 4) <> 1)
      from unnest(p_memory_ids, p_versions, p_scores, p_legs) a (memory_id, version, score, legs)
      cross join lateral (
        select coalesce(abs(a.score - 1 / (1 + exp(-(a.legs #>> '{graph,score}')::double precision))) < 0.00002, false)) h (is_by_graph)
      join memdb._factor_logs(p_tenant, memdb._readable(p_tenant, p_namespaces, p_agent), p_agent, p_memory_ids,
             memdb._resolve_weights(p_tenant, p_namespaces, p_factors), p_belief_at, p_world_at) l on l.memory_id = a.memory_id
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = a.memory_id and v.version = a.version
      left join memdb.shown_event e
        on e.tenant_id = p_tenant and e.event_id = v.event_id and (v_namespaces is null or e.namespace_id = any (v_namespaces))
     where v_namespaces is null or m.namespace_id = any (v_namespaces);
end $$;
comment on function memdb._recall_factors (integer, text, text[], text, bigint[], integer[], real[], jsonb[], timestamptz, timestamptz, jsonb) is 'What each of some memories had its odds multiplied by, name by name.';

-- _recall_fate: where a memory that recall did not return fell out, before any ranking; depth where it did not.
create or replace function memdb._recall_fate (
  p_tenant     integer,
  p_memory     bigint,
  p_query      text,
  p_has_vector boolean,
  p_namespaces text[],
  p_user       text,
  p_agent      text,
  p_session    text,
  p_types      text[],
  p_legs       text[],
  p_include    text[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_tiers      text[],
  p_from       timestamptz, p_to timestamptz,
  p_entities   text[],
  p_topic      bigint,
  p_metadata   jsonb,
  out step text, out reason text
)
  language plpgsql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_readable integer[];
  v_within   integer[];
  v_memory   memdb.memory;
  v_terms    text[] := '{}';
  v_held     text[];
  v_model    integer;
  v_vector   boolean;
begin
  perform memdb._authorize(p_tenant, false);
  v_readable := memdb._readable(p_tenant, null, null);
  v_within := memdb._readable(p_tenant, p_namespaces, p_agent);
  select m.* into v_memory from memdb.shown_memory m
   where m.tenant_id = p_tenant and m.memory_id = p_memory and (v_readable is null or m.namespace_id = any (v_readable));
  if not found then
    step := 'unknown';
    reason := 'there is no such memory, or not for this caller';
    return;
  end if;
  if p_belief_at is not null or p_world_at is not null then
    select t.* into v_memory
      from memdb._memories_then(p_tenant, array[p_memory], null, null, null, null,
             array['active', 'stale', 'superseded', 'contradicted', 'retracted', 'archive'], p_belief_at, p_world_at) t;
    if not found then
      step := 'time';
      reason := 'it was not known by then, or had nothing to say about that day';
      return;
    end if;
  end if;
  select f.step, f.reason into step, reason
    from (values
      (1, 'namespace', v_memory.namespace_id <> all (v_within), 'it is in another namespace, or the agent may not read its own'),
      (2, 'user', v_memory.user_id <> p_user, format('it is of user %s', v_memory.user_id)),
      (3, 'session', p_session is not null and not exists (
            select from memdb.session s
             where s.tenant_id = p_tenant and s.session_id = v_memory.session_id and s.external_id = p_session),
          'it is of another session, or of none'),
      (4, 'type', v_memory.type <> all (p_types), format('it is of type %s', v_memory.type)),
      (5, 'status', v_memory.status <> all (coalesce(p_include, '{}') || 'active'::text),
          format('it is %s, and recall was not told to include such', v_memory.status)),
      (6, 'tier', v_memory.tier <> all (p_tiers), format('it is of tier %s', v_memory.tier)),
      (7, 'tier', p_tiers is null and v_memory.tier = 'archive' and not coalesce('archive' = any (p_include), false),
          'it is in the archive, and recall was not told to include it'),
      (8, 'time', v_memory.occurred_at < p_from or v_memory.occurred_at >= p_to, format('it happened at %s', v_memory.occurred_at)),
      (9, 'entity', not (memdb._narrow(p_tenant, v_within, null, null, null, null, p_entities, null, null)).members @> p_memory, 'it mentions none of these entities'),
      (10, 'topic', not (memdb._narrow(p_tenant, v_within, null, null, null, null, null, p_topic, null)).members @> p_memory, 'it is of another topic, or of none'),
      (11, 'metadata', p_metadata is not null and not memdb._has_metadata(p_tenant, p_memory, v_memory.version, p_metadata), 'its metadata does not contain this'))
      f (place, step, is_out, reason)
   where f.is_out
   order by f.place
   limit 1;
  if step is not null then
    return;
  end if;
  if p_legs is null or 'keyword' = any (p_legs) then
    v_terms := memdb._query_terms(p_query);
  end if;
  select array(select t.term from unnest(v_terms) with ordinality t (term, place)
                where v.keyword @@ memdb._any_term(array[t.term])::tsquery order by t.place)
    into v_held
    from memdb.shown_memory_version v
   where v.tenant_id = p_tenant and v.memory_id = p_memory and v.version = v_memory.version;
  select e.model_id into v_model from memdb.embedding_model e where e.tenant_id = p_tenant and e.state = 'active';
  v_vector := coalesce(memdb._has_vector(p_tenant, v_model, p_memory, v_memory.version), false);
  p_has_vector := p_has_vector and (p_legs is null or 'vector' = any (p_legs));
  if v_held = '{}' and not (p_has_vector and v_vector) then
    step := 'unmatched';
    reason := format('it holds none of the words searched (%s); %s', array_to_string(v_terms[1:20], ', '),
      case when not p_has_vector then 'no vector was searched' else 'it has no vector yet' end);
  else
    step := 'depth';
    reason := concat_ws('; ', case when v_held <> '{}' then format('it holds %s', array_to_string(v_held[1:20], ', ')) end,
      case when p_has_vector and v_vector then 'it has a vector' end, 'others match better: it is beyond the depth of every leg');
  end if;
end $$;
comment on function memdb._recall_fate (integer, bigint, text, boolean, text[], text, text, text, text[], text[], text[], timestamptz, timestamptz, text[], timestamptz, timestamptz, text[], bigint, jsonb) is 'Where a memory that recall did not return fell out, before any ranking; depth where it did not.';

-- explain_recall: why recall answers as it does: rank and score of each hit per leg, its factors, and where an expected memory fell out.
--
-- Arguments as in recall; p_expected: a memory that was to be found. Returns the hits recall
-- returns, step returned: legs {leg: {rank, score}}; factors {name: what the odds were multiplied
-- by}, those that change nothing left out. Where p_expected is not among them, one row more:
--   unknown     no such memory, or not for this caller
--   time        not known at the time asked about, or nothing to say about that day, or not between p_from and p_to
--   namespace, user, session, type, status, tier, entity, topic, metadata    the first filter it does not pass
--   unmatched   no word of the query in it, and no vector to compare
--   depth       it matches, but lies beyond the depth of every leg: 50 hits, or p_k
--   cut         ranked, but below p_k
--   collapsed   into the hit of that rank, which says the same
-- In unmatched and cut, rank and score are its own where it takes no more than 50 hits to reach it,
-- else those it would have if 1,000 were asked for. reason says it in words. Writes no log.
-- Content comes under the caller's own row security. Raises as recall. Cost: that of recall; with
-- p_expected missing, of up to two more, one of them for 1,000 hits.
create or replace function memdb.explain_recall (
  p_tenant       integer,
  p_query        text,
  p_expected     bigint      default null,
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
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null,
  p_tiers        text[]      default null,
  p_from         timestamptz default null,
  p_to           timestamptz default null,
  p_entities     text[]      default null,
  p_topic        bigint      default null,
  p_metadata     jsonb       default null,
  p_factors      jsonb       default null
)
  returns table (
    rank integer, memory_id bigint, version integer, event_id bigint, score real, text text, legs jsonb, factors jsonb,
    is_expected boolean, step text, reason text)
  language plpgsql volatile rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_hits  jsonb;
  v_hit   jsonb;
  v_deep  record;
  v_fate  record;
  v_depth integer;
begin
  perform memdb._authorize(p_tenant, false);
  select coalesce(jsonb_agg(to_jsonb(r) order by r.rank), '[]') into v_hits
    from memdb.recall(p_tenant, p_query, p_vector, p_namespaces, p_user, p_agent, p_session, p_types, p_k, p_legs, p_hops,
                      p_include, false, p_as_of_belief, p_as_of_world, null, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata,
                      p_factors => p_factors) r;
  return query
    with hit as (
      select h.* from jsonb_to_recordset(v_hits) h (rank integer, memory_id bigint, version integer, event_id bigint, score real,
                                                    text text, legs jsonb))
    select h.rank, h.memory_id, h.version, h.event_id, h.score, h.text, h.legs, coalesce(f.factors, '{}'),
           coalesce(h.memory_id = p_expected, false), 'returned', null::text
      from hit h
      left join memdb._recall_factors(p_tenant, p_query, p_namespaces, p_agent, array(select i.memory_id from hit i order by i.rank),
             array(select i.version from hit i order by i.rank), array(select i.score from hit i order by i.rank),
             array(select i.legs from hit i order by i.rank), p_as_of_belief, p_as_of_world, p_factors) f on f.memory_id = h.memory_id
     order by h.rank;
  if p_expected is null or v_hits @> jsonb_build_array(jsonb_build_object('memory_id', p_expected)) then
    return;
  end if;
  select h.item into v_hit from jsonb_array_elements(v_hits) h (item)
   where h.item #> '{legs,collapsed,memory_ids}' @> to_jsonb(p_expected);
  if found then
    return query
      select (v_hit ->> 'rank')::integer, p_expected, m.version, null::bigint, null::real, v.text, '{}'::jsonb, '{}'::jsonb, true, 'collapsed',
             format('memory %s says the same and is sourced as well or better', v_hit ->> 'memory_id')
        from memdb.shown_memory m
        join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
       where m.tenant_id = p_tenant and m.memory_id = p_expected;
    return;
  end if;
  v_fate := memdb._recall_fate(p_tenant, p_expected, p_query, p_vector is not null, p_namespaces, p_user, p_agent, p_session,
    p_types, p_legs, p_include, p_as_of_belief, p_as_of_world, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata);
  select null::integer as version, null::real as score, null::jsonb as legs, null::integer as rank into v_deep;
  -- The legs reach to 50 or p_k hits: up to there rank and score are those of the recall explained.
  foreach v_depth in array case when v_fate.step in ('unmatched', 'depth') then array[greatest(50, p_k), 1000] else '{}' end loop
    select d.version, d.score, d.legs, d.rank into v_deep
      from (select c.*, row_number() over ()::integer as rank
              from memdb._recall_candidates(p_tenant, p_query, p_vector, p_namespaces, p_user, p_agent, p_session, p_types, v_depth,
                     p_legs, p_hops, p_include, p_as_of_belief, p_as_of_world, null, p_tiers, p_from, p_to, p_entities, p_topic,
                     p_metadata, null, 0, p_factors) c) d
     where d.memory_id = p_expected;
    if found and (v_depth < 1000 or least((v_deep.legs -> 'keyword' ->> 'rank')::integer,
                                          (v_deep.legs -> 'vector' ->> 'rank')::integer) <= greatest(50, p_k)) then
      v_fate.step := 'cut';
      v_fate.reason := format('%s others are more likely to help; %s were asked for', v_deep.rank - 1, p_k);
    elsif found then
      v_fate.step := 'depth';
    end if;
    exit when found;
  end loop;
  return query
    select v_deep.rank, p_expected, coalesce(v_deep.version, m.version), null::bigint, v_deep.score, v.text, coalesce(v_deep.legs, '{}'),
           coalesce(f.factors, '{}'), true, v_fate.step, v_fate.reason
      from (select) one
      left join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = p_expected
      left join memdb.shown_memory_version v
        on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = coalesce(v_deep.version, m.version)
      left join memdb._recall_factors(p_tenant, p_query, p_namespaces, p_agent, array[p_expected], array[v.version],
                  array[v_deep.score], array[v_deep.legs], p_as_of_belief, p_as_of_world, p_factors) f on true;
end $$;
comment on function memdb.explain_recall (integer, text, bigint, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz, text[], timestamptz, timestamptz, text[], bigint, jsonb, jsonb) is 'Why recall answers as it does: rank and score of each hit per leg, its factors, and where an expected memory fell out.';
