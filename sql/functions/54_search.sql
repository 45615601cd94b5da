-- The search: all legs of a recall in their order, within a budget of time.

-- _metadata_members: the memories of a scope whose current version has this metadata, at most p_limit.
--
-- By the metadata index, namespace by namespace: "null or any of" would read the whole tenant.
create or replace function memdb._metadata_members (p_tenant integer, p_namespaces integer[], p_metadata jsonb, p_limit integer)
  returns bigint[]
  language plpgsql stable
  -- A small table looks cheap to read in sequence, but that reads the memories of others.
  set enable_seqscan = off
as $$
begin
  return array(
    select v.memory_id
      from (select p_metadata || jsonb_object(array[E'\x01t', p_tenant::text]) as document where p_namespaces is null
            union all
            select memdb.scoped_metadata_v1(p_tenant, n.id, p_metadata) from unnest(p_namespaces) n (id)) s
      cross join lateral (
        select v.memory_id
          from memdb.memory_version v
         where memdb.scoped_metadata_v1(v.tenant_id, v.namespace_id, v.metadata) @> s.document and v.metadata <> '{}'
           and v.tenant_id = p_tenant and v.metadata @> p_metadata and v.retired_at is null
         limit p_limit) v
     limit p_limit);
end $$;
comment on function memdb._metadata_members (integer, integer[], jsonb, integer) is 'The memories of a scope whose current version has this metadata, at most p_limit.';

-- _is_common_metadata: whether more than a fifth of the newest memories of a scope have this metadata.
--
-- A guess, for speed alone: 100 are looked at, of the first 20 namespaces.
create or replace function memdb._is_common_metadata (p_tenant integer, p_namespaces integer[], p_metadata jsonb)
  returns boolean
  language plpgsql stable
as $$
begin
  return (
    select count(*) filter (where v.metadata @> p_metadata) > 0.2 * count(*)
      from (select m.memory_id, m.version
              from (select m.memory_id, m.version from memdb.memory m
                     where m.tenant_id = p_tenant and p_namespaces is null order by m.memory_id desc limit 100) m
            union all
            select m.memory_id, m.version
              from unnest(p_namespaces[1:20]) n (id)
              cross join lateral (
                select m.memory_id, m.version from memdb.memory m
                 where m.tenant_id = p_tenant and m.namespace_id = n.id
                 order by m.occurred_at desc, m.memory_id desc limit 100 / least(20, cardinality(p_namespaces))) m) m
      cross join lateral (
        select v.metadata from memdb.memory_version v
         where v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version offset 0) v);
end $$;
comment on function memdb._is_common_metadata (integer, integer[], jsonb) is 'Whether more than a fifth of the newest memories of a scope have this metadata.';

-- _chosen: the only memories of a scope that can pass the filters, where they are p_few at most; null where they are more.
--
-- The filters are asked in the order of what they cost; the first that leaves few decides. Of more than 1,000
-- namespaces neither time nor metadata are looked up.
create or replace function memdb._chosen (
  p_tenant     integer,
  p_namespaces integer[],
  p_sessions   bigint[],
  p_also       memdb._recall_filter,
  p_few        integer
)
  returns bigint[]
  language plpgsql stable
as $$
declare
  v_in     integer[];
  v_chosen bigint[];
begin
  if (p_also).members is not null then
    v_chosen := array(
      select i.id
        from (select generate_series(lower(r.range), upper(r.range) - 1) as id from unnest((p_also).members) r (range)
               limit p_few + 1) i);
  elsif p_sessions is not null then
    v_chosen := array(
      select m.memory_id from memdb.memory m
       where m.tenant_id = p_tenant and m.session_id = any (p_sessions) limit p_few + 1);
  elsif coalesce((p_also).from_at, (p_also).to_at) is not null then
    v_in := coalesce(p_namespaces, array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant));
    if cardinality(v_in) <= 1000 then
      -- One by one, in the order of the index by time: for all at once the planner reads the whole tenant.
      v_chosen := array(
        select m.memory_id
          from unnest(v_in) n (id)
          cross join lateral (
            select m.memory_id from memdb.memory m
             where m.tenant_id = p_tenant and m.namespace_id = n.id
               and m.occurred_at >= coalesce((p_also).from_at, '-infinity') and m.occurred_at < coalesce((p_also).to_at, 'infinity')
             order by m.occurred_at, m.memory_id limit p_few + 1) m
         limit p_few + 1);
    end if;
  end if;
  if cardinality(v_chosen) <= p_few then
    return v_chosen;
  elsif (p_also).metadata is null or cardinality(p_namespaces) > 1000
     or memdb._is_common_metadata(p_tenant, p_namespaces, (p_also).metadata) then
    return null;
  end if;
  v_chosen := memdb._metadata_members(p_tenant, p_namespaces, (p_also).metadata, p_few + 1);
  return case when cardinality(v_chosen) <= p_few then v_chosen end;
end $$;
comment on function memdb._chosen (integer, integer[], bigint[], memdb._recall_filter, integer) is 'The only memories of a scope that can pass the filters, where they are p_few at most; null where they are more.';

-- _narrow: the further filters of a recall, as the legs take them.
--
-- p_entities are names in any spelling, resolved in the namespaces given; of entities and topics
-- the members are looked up once. chosen is set where a filter leaves an eighth of the scope at most,
-- and no more than 10,000 memories: then every leg looks at these alone, which takes ten times as
-- long a memory as searching all. Cost: the mentions of the entities, and up to 10,001 ids.
create or replace function memdb._narrow (
  p_tenant     integer,
  p_namespaces integer[],
  p_sessions   bigint[],
  p_tiers      text[],
  p_from       timestamptz,
  p_to         timestamptz,
  p_entities   text[],
  p_topic      bigint,
  p_metadata   jsonb
)
  returns memdb._recall_filter
  language plpgsql stable
as $$
declare
  v_few  integer;
  v_also memdb._recall_filter;
begin
  v_also.tiers := p_tiers;
  v_also.from_at := p_from;
  v_also.to_at := p_to;
  v_also.metadata := nullif(p_metadata, '{}');
  if p_entities is not null then
    select coalesce(range_agg(int8range(m.memory_id, m.memory_id, '[]')), '{}') into v_also.members
      from memdb.entity_alias a
      join memdb.entity e on e.tenant_id = p_tenant and e.entity_id = a.entity_id
      join memdb.mention m on m.tenant_id = p_tenant and m.entity_id = coalesce(e.merged_into, e.entity_id)
     where a.tenant_id = p_tenant
       and a.namespace_id = any (coalesce(p_namespaces, array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant)))
       and a.alias = any (array(select memdb._alias(n.name) from unnest(p_entities) n (name)));
  end if;
  if p_topic is not null then
    select coalesce(range_agg(int8range(t.memory_id, t.memory_id, '[]')), '{}') * coalesce(v_also.members, '{(,)}')
      into v_also.members
      from memdb._topic_members(p_tenant, p_topic) t;
  end if;
  -- Not folded yet, its size is not known.
  select least(10000, greatest(100, coalesce(nullif(sum(s.documents), 0), 16000) / 8)) into v_few
    from memdb.namespace_stat s
   where s.tenant_id = p_tenant and (p_namespaces is null or s.namespace_id = any (p_namespaces));
  v_also.chosen := memdb._chosen(p_tenant, p_namespaces, p_sessions, v_also, v_few);
  return v_also;
end $$;
comment on function memdb._narrow (integer, integer[], bigint[], text[], timestamptz, timestamptz, text[], bigint, jsonb) is 'The further filters of a recall, as the legs take them.';

-- _fits: whether work that takes p_cost milliseconds fits before a deadline, with 3 left to rank and read what was found.
create or replace function memdb._fits (p_deadline timestamptz, p_cost double precision)
  returns boolean
  language sql volatile
begin atomic
  select p_deadline is null or clock_timestamp() + (p_cost + 3) * interval '1 millisecond' <= p_deadline;
end;
comment on function memdb._fits (timestamptz, double precision) is 'Whether work that takes p_cost milliseconds fits before a deadline, with 3 left to rank and read what was found.';

-- _fitting: how many of so many hits can be found, ranked and read before a deadline at p_each milliseconds a hit; 50 always.
create or replace function memdb._fitting (p_deadline timestamptz, p_hits integer, p_each double precision)
  returns integer
  language sql volatile
begin atomic
  select case when p_deadline is null then p_hits else least(p_hits, greatest(50,
    (1000 * extract(epoch from p_deadline - clock_timestamp()) - 3) / p_each))::integer end;
end;
comment on function memdb._fitting (timestamptz, integer, double precision) is 'How many of so many hits can be found, ranked and read before a deadline at p_each milliseconds a hit; 50 always.';

-- _vector_cost: how many milliseconds the vector leg is going to take, as a guess.
--
-- A row measured takes half a microsecond and one for every 400 dimensions, out of place four more; a
-- search of an index 5 ms.
create or replace function memdb._vector_cost (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_model      integer,
  p_vector     halfvec,
  p_also       memdb._recall_filter
)
  returns double precision
  language plpgsql stable
as $$
declare
  v_how  record;
  v_rows double precision;
  v_each double precision := 0.0005 + vector_dims(p_vector) / 400000.0 + case when vector_dims(p_vector) > 768 then 0.004 else 0 end;
begin
  if (p_also).chosen is not null then
    return 1 + cardinality((p_also).chosen) * (v_each + 0.004);
  end if;
  v_how := memdb._vector_strategy(p_tenant, p_namespaces, p_user, p_sessions, p_model, p_vector, p_also);
  select sum(s.documents) into v_rows
    from memdb.namespace_stat s
   where s.tenant_id = p_tenant
     and case when v_how.indexes <> '{}' then s.namespace_id = any (v_how.rest)
              else p_namespaces is null or s.namespace_id = any (p_namespaces) end;
  return 1 + 5 * cardinality(v_how.indexes) + coalesce(v_rows, 0) * v_each;
end $$;
comment on function memdb._vector_cost (integer, integer[], text, bigint[], integer, halfvec, memdb._recall_filter) is 'How many milliseconds the vector leg is going to take, as a guess.';

-- _able_legs: of some legs, those that can find anything.
--
-- What was said a moment ago and is no memory yet has no tier, no entities, no topic, no metadata of one.
create or replace function memdb._able_legs (p_legs text[], p_types text[], p_also memdb._recall_filter, p_vector halfvec)
  returns text[]
  language sql immutable parallel safe
begin atomic
  select array_remove(array_remove(p_legs, case when p_vector is null then 'vector' end),
    case when num_nonnulls((p_also).tiers, (p_also).members, (p_also).metadata) > 0 or not coalesce('observation' = any (p_types), true)
         then 'fresh' end);
end;
comment on function memdb._able_legs (text[], text[], memdb._recall_filter, halfvec) is 'Of some legs, those that can find anything.';

-- _graph_hits: what is tied to the best of the pool, or to what the query names, with its factors: what the graph leg gives.
create or replace function memdb._graph_hits (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_also       memdb._recall_filter,
  p_agent      text,
  p_query      text,
  p_hops       integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_weights    memdb._recall_weights,
  p_memory_ids bigint[],
  p_scores     double precision[],
  out memory_ids bigint[],
  out versions   integer[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_found record;
begin
  v_found := memdb._graph_leg(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_memory_ids[1:10], p_scores[1:10], p_hops,
    p_belief_at, p_world_at, p_also, p_agent);
  v_found := memdb._anchored(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also,
    case when p_hops > 0 and p_belief_at is null and p_world_at is null then p_query end, p_scores[1], p_memory_ids,
    v_found.memory_ids, v_found.versions, v_found.scores, p_agent);
  if not p_weights is null then
    v_found := memdb._weighed(p_tenant, p_namespaces, p_agent, p_weights, p_belief_at, p_world_at, v_found.memory_ids, v_found.versions,
      null, v_found.scores, null);
  end if;
  memory_ids := v_found.memory_ids;
  versions := v_found.versions;
  scores := v_found.scores;
end $$;
comment on function memdb._graph_hits (integer, integer[], text, bigint[], text[], text[], memdb._recall_filter, text, text, integer, timestamptz, timestamptz, memdb._recall_weights, bigint[], double precision[]) is 'What is tied to the best of the pool, or to what the query names, with its factors: what the graph leg gives.';

-- _search: the p_k best of what the legs find, and in a last row of neither memory nor event, as legs, how long each took.
--
-- Arguments up to p_also are the scope and its filters; p_depth is how many hits a leg brings.
-- p_weights: other factors than the usual (54_factor), null for none.
-- p_deadline: a leg that would end later by the guesses of _vector_cost and below is left out; one
-- that has begun is not cut short. The keyword leg always runs, and the vector leg where there is
-- no other. Of more than 50 hits so many are looked for, ranked and given back as fit.
create or replace function memdb._search (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_also       memdb._recall_filter,
  p_agent      text,
  p_query      text,
  p_model      integer,
  p_vector     halfvec,
  p_legs       text[],
  p_hops       integer,
  p_depth      integer,
  p_k          integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_deadline   timestamptz,
  p_weights    memdb._recall_weights
)
  returns table (memory_id bigint, version integer, event_id bigint, score real, legs jsonb)
  language plpgsql stable rows 10
as $$
declare
  v_laps     timestamptz[] := array[clock_timestamp()];
  v_legs     text[] := memdb._able_legs(p_legs, p_types, p_also, p_vector);
  v_depth    integer := memdb._fitting(p_deadline, p_depth, 0.08);
  v_is_now   boolean := p_belief_at is null and p_world_at is null;
  v_terms    text[] := case when p_legs && array['keyword', 'fresh'] then memdb._query_terms(p_query) else '{}' end;
  v_width    integer;
  v_keyword  record;
  v_near     record;
  v_span     record;
  v_fresh    record;
  v_context  record;
  v_windowed record;
  v_pool     record;
  v_graph    record;
begin
  if v_is_now then
    v_keyword := memdb._keyword_leg(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, v_terms, v_depth, p_also);
  else
    v_keyword := memdb._keyword_then(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, v_terms, v_depth,
      p_belief_at, p_world_at, p_also);
  end if;
  v_keyword.memory_ids := case when 'keyword' = any (v_legs) then v_keyword.memory_ids else '{}' end;
  v_depth := memdb._fitting(p_deadline, v_depth, 0.08);
  v_laps := v_laps || clock_timestamp();
  v_legs := case when memdb._fits(p_deadline, 2) then v_legs else array_replace(v_legs, 'fresh', 'no fresh') end;
  v_fresh := memdb._fresh_leg(p_tenant, p_namespaces, p_user, p_sessions, v_keyword.terms, v_keyword.idf, v_keyword.mean_length,
    case when 'fresh' = any (v_legs) then v_depth else 0 end, p_belief_at, p_also);
  v_laps := v_laps || clock_timestamp();
  if p_deadline is not null and p_vector is not null and v_keyword.memory_ids <> '{}'
     and not memdb._fits(p_deadline, memdb._vector_cost(p_tenant, p_namespaces, p_user, p_sessions, p_model, p_vector, p_also)) then
    v_legs := array_replace(v_legs, 'vector', 'no vector');
    p_vector := null;
  end if;
  if v_is_now then
    v_near := memdb._vector_leg(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_model, p_vector, v_depth, p_also);
  else
    v_near := memdb._nearest_then(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_model, p_vector, v_depth,
      p_belief_at, p_world_at, p_also);
  end if;
  -- What finding them took is known now; ranking and reading them is left.
  v_depth := memdb._fitting(p_deadline, v_depth, 0.06);
  if v_depth < p_depth then
    v_keyword.memory_ids := v_keyword.memory_ids[1:v_depth];
    select v_near.memory_ids[1:v_depth] as memory_ids, v_near.scores[1:v_depth] as scores into v_near;
    v_legs := v_legs || format('only %s', v_depth);
    p_k := least(p_k, v_depth);
  end if;
  v_laps := v_laps || clock_timestamp();
  v_legs := case when memdb._fits(p_deadline, 0.1 * v_depth) then v_legs else array_replace(v_legs, 'neighbour', 'no neighbour') end;
  v_width := case when 'neighbour' = any (v_legs) then 2 else 0 end;
  v_context := memdb._context_rows(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, v_keyword.memory_ids,
    v_near.memory_ids, v_width, p_belief_at, p_world_at, p_also);
  v_windowed := memdb._window_scores(p_tenant, v_context.memory_ids, v_context.versions, v_context.places, v_keyword.terms,
    v_keyword.idf, v_keyword.mean_length, v_width);
  v_laps := v_laps || clock_timestamp();
  v_span := memdb._time_spans(p_tenant, p_namespaces, p_query, v_keyword.documents);
  v_pool := memdb._scored(p_tenant, p_namespaces, p_agent, p_query, v_context.memory_ids, v_context.versions, v_context.occurred_at,
    v_context.namespaces, v_context.factors, v_context.places, v_context.by_hit, v_windowed.scores, v_windowed.event_ids,
    v_windowed.asks, v_near.memory_ids, v_near.scores, p_model, p_vector, v_width,
    v_span.from_at, v_span.to_at, v_span.worth, v_fresh.event_ids, v_fresh.scores, v_depth);
  if not p_weights is null then
    v_pool := memdb._weighed(p_tenant, p_namespaces, p_agent, p_weights, p_belief_at, p_world_at, v_pool.memory_ids, v_pool.versions,
      v_pool.event_ids, v_pool.scores, v_pool.keywords);
  end if;
  v_laps := v_laps || clock_timestamp();
  v_legs := case when p_hops = 0 or memdb._fits(p_deadline, p_hops) then v_legs else array_replace(v_legs, 'graph', 'no graph') end;
  v_graph := memdb._graph_hits(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also, p_agent, p_query,
    case when 'graph' = any (v_legs) then p_hops else 0 end, p_belief_at, p_world_at, p_weights, v_pool.memory_ids, v_pool.scores);
  v_laps := v_laps || clock_timestamp();
  return query
    select c.* from memdb._collapse(p_tenant, p_model, array(select row(r.*)::memdb._recall_hit from memdb._ranked(v_pool.memory_ids,
      v_pool.versions, v_pool.event_ids, v_pool.scores, v_pool.keywords, v_graph.memory_ids, v_graph.versions, v_graph.scores,
      v_keyword.memory_ids, v_keyword.scores, v_near.memory_ids, v_near.scores, v_fresh.event_ids, v_fresh.scores, v_width, p_k + 30) r), p_k, p_belief_at) c;
  return query select null::bigint, null::integer, null::bigint, null::real, memdb._timing(v_legs, v_laps || clock_timestamp());
end $$;
comment on function memdb._search (integer, integer[], text, bigint[], text[], text[], memdb._recall_filter, text, text, integer, halfvec, text[], integer, integer, integer, timestamptz, timestamptz, timestamptz, memdb._recall_weights) is 'The p_k best of what the legs find, and in a last row of neither memory nor event, as legs, how long each took.';

-- _timing: what a recall tells of its time: {legs: {name: ms}, rank_ms, skipped: [legs], cut_to, degraded}.
--
-- p_laps are the moments between keyword, fresh, vector, neighbour, ranking, graph and the end;
-- legs that did not run are left out, and those left out for lack of time are marked 'no' in p_legs.
-- cut_to is there where not all hits fitted: 'only' so many, as p_legs says.
create or replace function memdb._timing (p_legs text[], p_laps timestamptz[])
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select jsonb_build_object(
    'legs', coalesce(jsonb_object_agg(l.name, l.ms) filter (where l.name = any (p_legs)), '{}'),
    'rank_ms', sum(l.ms) filter (where l.name is null),
    'skipped', coalesce(jsonb_agg(l.name) filter (where 'no ' || l.name = any (p_legs)), '[]'),
    'degraded', coalesce(bool_or('no ' || l.name = any (p_legs)), false) or min(o.hits) is not null)
    || case when min(o.hits) is null then '{}' else jsonb_build_object('cut_to', min(o.hits)) end
    from (select n.name, round((1000 * extract(epoch from p_laps[n.place + 1] - p_laps[n.place]))::numeric, 2) as ms
            from unnest(array['keyword', 'fresh', 'vector', 'neighbour', null, 'graph', null]) with ordinality n (name, place)) l
    left join (select split_part(p.leg, ' ', 2)::integer as hits from unnest(p_legs) p (leg) where starts_with(p.leg, 'only ')) o on true;
end;
comment on function memdb._timing (text[], timestamptz[]) is 'What a recall tells of its time: {legs: {name: ms}, rank_ms, skipped: [legs], cut_to, degraded}.';
