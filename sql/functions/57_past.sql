-- The legs of a recall about the past.
--
-- With a time given, a memory is searched by the version that answers then (39_history), in the
-- state it had then. Versions no longer current have no index of their own, their vectors lie in
-- the cold table: so these legs read every match of the scope where those of the present prune.
-- What has no history stays as it is today: tier, session, user and namespace.

-- _memories_then: of some memories, those recallable at a time about a time, as rows of that time.
--
-- version, status, type, importance, confidence, trust and occurred_at are those of then, and it
-- is these that the filters of recall are asked of.
create or replace function memdb._memories_then (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_also       memdb._recall_filter default null
)
  returns setof memdb.memory
  language plpgsql stable rows 1
as $$
begin
  return query
    select t.*
      from memdb._states_at(p_tenant, p_belief_at, p_world_at, p_memory_ids) s
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = s.memory_id
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = s.memory_id and v.version = s.version
      cross join lateral jsonb_populate_record(m, coalesce(v.replaced, '{}')
        || jsonb_build_object('version', s.version, 'status', s.status)) t
     where memdb._is_recallable(t, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also);
end $$;
comment on function memdb._memories_then (integer, bigint[], integer[], text, bigint[], text[], text[], timestamptz, timestamptz, memdb._recall_filter) is 'Of some memories, those recallable at a time about a time, as rows of that time.';

-- _may_answer: whether a version can be the one that answers at a time about a time.
--
-- A first sieve by the row alone: what passes is still asked of _states_at.
create or replace function memdb._may_answer (
  p_recorded_at timestamptz,
  p_retired_at  timestamptz,
  p_valid_from  timestamptz,
  p_valid_to    timestamptz,
  p_belief_at   timestamptz,
  p_world_at    timestamptz
)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select (p_belief_at is null or p_recorded_at <= p_belief_at)
     and case when p_world_at is null then p_retired_at is null or p_retired_at > p_belief_at
              else (p_valid_from is null or p_valid_from <= p_world_at) and (p_valid_to is null or p_valid_to > p_world_at) end;
end;
comment on function memdb._may_answer (timestamptz, timestamptz, timestamptz, timestamptz, timestamptz, timestamptz) is 'Whether a version can be the one that answers at a time about a time.';

-- _keyword_then: the keyword leg at a time about a time; returns what _keyword_leg returns.
--
-- Where _keyword_leg goes by folded statistics, so does this, by those of today: then words are
-- worth the same in both. Otherwise they are counted among the versions that match. States are looked up best first, and only until
-- p_limit are found: an ordered subquery under a lateral join keeps its order.
create or replace function memdb._keyword_then (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_terms      text[],
  p_limit      integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_also       memdb._recall_filter default null,
  out memory_ids  bigint[],
  out scores      double precision[],
  out terms       text[],
  out idf         double precision[],
  out documents   double precision,
  out mean_length double precision
)
  language plpgsql stable
  set enable_seqscan = off
as $$
declare
  v_known record;
  v_query tsquery;
begin
  terms := p_terms[1:64];
  if cardinality(p_terms) = 0 then
    idf := '{}';
    return;
  end if;
  v_known := memdb._scope_statistics(p_tenant, p_namespaces, p_terms);
  if v_known.documents >= 500 and v_known.queued <= v_known.documents / 4 then
    documents := v_known.documents + v_known.queued;
    mean_length := v_known.mean_length;
    select array_agg(r.term order by r.place), array_agg(memdb._idf(documents, r.holding) order by r.place)
      into terms, idf
      from (select t.term, t.holding, row_number() over (order by t.holding, t.term) as place
              from unnest(p_terms, v_known.holding) t (term, holding)) r
     where r.place <= 64;
  else
    select count(*) into documents
      from memdb.memory m
     where m.tenant_id = p_tenant and m.recorded_at <= coalesce(p_belief_at, 'infinity')
       and m.namespace_id = any (coalesce(p_namespaces,
             array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant)));
  end if;
  v_query := (memdb._scope_query(p_tenant, p_namespaces, p_user) || '&' || memdb._any_term(terms))::tsquery;
  with hit as materialized (
    select v.memory_id, v.version, tsvector_to_array(ts_filter(w.keyword, '{a}')) as terms, length(w.keyword) - 3 as length
      from (select v.* from memdb.memory_version v
             where v.keyword @@ v_query
               and memdb._may_answer(v.recorded_at, v.retired_at, v.valid_from, v.valid_to, p_belief_at, p_world_at)
            offset 0) v
      cross join lateral (select setweight(v.keyword, 'A', terms) as keyword offset 0) w
     where v.tenant_id = p_tenant),
  counted as (
    select x.term, count(*) as holding from hit h cross join lateral unnest(h.terms) x (term) group by x.term),
  term as materialized (
    select t.term, t.place, coalesce(idf[t.place], memdb._idf(documents, coalesce(c.holding, 0))) as idf
      from unnest(terms) with ordinality t (term, place)
      left join counted c on c.term = t.term),
  mean as materialized (
    select coalesce(mean_length, avg(h.length)) as length from hit h),
  scored as (
    select h.memory_id, h.version, memdb._saturate(memdb._presence(h.length, (select a.length from mean a))) * sum(t.idf) as score
      from hit h
      cross join lateral unnest(h.terms) x (term)
      join term t on t.term = x.term
     group by h.memory_id, h.version, h.length
     order by 3 desc, 1
    offset 0),
  best as (
    select s.memory_id, s.score
      from scored s
      cross join lateral memdb._memories_then(p_tenant, array[s.memory_id], p_namespaces, p_user, p_sessions, p_types,
                                              p_statuses, p_belief_at, p_world_at, p_also) m
     where m.version = s.version
     order by s.score desc, s.memory_id
     limit p_limit)
  select (select array_agg(b.memory_id order by b.score desc, b.memory_id) from best b),
         (select array_agg(b.score order by b.score desc, b.memory_id) from best b),
         (select array_agg(t.idf order by t.place) from term t),
         coalesce((select a.length from mean a), 20)
    into memory_ids, scores, idf, mean_length;
end $$;
comment on function memdb._keyword_then (integer, integer[], text, bigint[], text[], text[], text[], integer, timestamptz, timestamptz, memdb._recall_filter) is 'The keyword leg at a time about a time; returns what _keyword_leg returns.';

-- _nearest_then: the vector leg at a time about a time: every vector of the scope measured, hot and cold.
--
-- Dynamic for the reason given at _nearest_exact.
create or replace function memdb._nearest_then (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_also       memdb._recall_filter default null,
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  c_scope constant text := 'select e.memory_id, e.version, -(e.vector <#> $2) + 0 as similarity from memdb.%I e'
    || ' where e.tenant_id = $1 and e.model_id = $3 and e.namespace_id = any ($4)'
    || ' and ($5 is null or e.user_id is null or e.user_id = $5)';
begin
  if p_limit < 1 or p_vector is null then
    return;
  end if;
  execute format(
    $sql$
    select array_agg(b.memory_id order by b.similarity desc, b.memory_id), array_agg(b.similarity order by b.similarity desc, b.memory_id)
      from (select n.memory_id, n.similarity
              from (select e.memory_id, e.version, e.similarity
                      from (%s union all %s) e
                      join memdb.memory_version v on v.tenant_id = $1 and v.memory_id = e.memory_id and v.version = e.version
                     where memdb._may_answer(v.recorded_at, v.retired_at, v.valid_from, v.valid_to, $10, $11)
                     order by 3 desc, 1
                    offset 0) n
              cross join lateral memdb._memories_then($1, array[n.memory_id], $6, $5, $7, $8, $9, $10, $11, $13) m
             where m.version = n.version
             order by n.similarity desc, n.memory_id
             limit $12) b
    $sql$, format(c_scope, 'embedding'), format(c_scope, 'embedding_cold'))
    into memory_ids, scores
    using p_tenant, p_vector, p_model,
          coalesce(p_namespaces, array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant)),
          p_user, p_namespaces, p_sessions, p_types, p_statuses, p_belief_at, p_world_at, p_limit, p_also;
end $$;
comment on function memdb._nearest_then (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer, timestamptz, timestamptz, memdb._recall_filter) is 'The vector leg at a time about a time: every vector of the scope measured, hot and cold.';

-- _next_then: up to p_reach memories on either side of one, as _next_to, at a time about a time.
--
-- Looks at the 50 that come first on either side.
create or replace function memdb._next_then (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_memory     memdb.memory,
  p_reach      integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_also       memdb._recall_filter default null
)
  returns setof memdb.memory
  language plpgsql stable rows 4
as $$
declare
  c_happened constant text[] := array['observation', 'action', 'result'];
begin
  return query
    with near as materialized (
      (select m.memory_id, false as is_after from memdb.memory m
        where m.tenant_id = p_tenant and m.session_id = p_memory.session_id
          and (m.sequence, m.memory_id) < (p_memory.sequence, p_memory.memory_id)
        order by m.sequence desc, m.memory_id desc limit 50)
      union all
      (select m.memory_id, true from memdb.memory m
        where m.tenant_id = p_tenant and m.session_id = p_memory.session_id
          and (m.sequence, m.memory_id) > (p_memory.sequence, p_memory.memory_id)
        order by m.sequence, m.memory_id limit 50)
      union all
      (select m.memory_id, false from memdb.memory m
        where p_memory.session_id is null and p_memory.type = any (c_happened)
          and m.tenant_id = p_tenant and m.namespace_id = p_memory.namespace_id
          and (m.occurred_at, m.memory_id) < (p_memory.occurred_at, p_memory.memory_id)
          and m.occurred_at >= p_memory.occurred_at - interval '6 hours'
        order by m.occurred_at desc, m.memory_id desc limit 50)
      union all
      (select m.memory_id, true from memdb.memory m
        where p_memory.session_id is null and p_memory.type = any (c_happened)
          and m.tenant_id = p_tenant and m.namespace_id = p_memory.namespace_id
          and (m.occurred_at, m.memory_id) > (p_memory.occurred_at, p_memory.memory_id)
          and m.occurred_at <= p_memory.occurred_at + interval '6 hours'
        order by m.occurred_at, m.memory_id limit 50)),
    alive as (
      select t, n.is_after
        from memdb._memories_then(p_tenant, array(select n.memory_id from near n), p_namespaces, p_user, p_sessions, p_types,
                                  p_statuses, p_belief_at, p_world_at, p_also) t
        join near n on n.memory_id = t.memory_id
       where p_memory.session_id is not null
          or (t.session_id is null and t.type = any (c_happened) and t.user_id is not distinct from p_memory.user_id))
    select (r.t).*
      from (select h.t, row_number() over (partition by h.is_after
                     order by case when h.is_after then (h.t).sequence else -(h.t).sequence end,
                              abs(extract(epoch from (h.t).occurred_at - p_memory.occurred_at)),
                              case when h.is_after then (h.t).memory_id else -(h.t).memory_id end) as place
              from alive h) r
     where r.place <= p_reach;
end $$;
comment on function memdb._next_then (integer, integer[], text, bigint[], text[], text[], memdb.memory, integer, timestamptz, timestamptz, memdb._recall_filter) is 'Up to p_reach memories on either side of one, as _next_to, at a time about a time.';

-- _adjacent_then: the strongest ties of one memory, as _adjacent, at a time about a time.
--
-- A premise ties where its derivation held then, alternatives included: which of them a memory
-- stood on is known for now only.
create or replace function memdb._adjacent_then (
  p_tenant     integer,
  p_memory     bigint,
  p_namespaces integer[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_fan_out    integer
)
  returns table (memory_id bigint, weight real)
  language plpgsql stable rows 16
as $$
declare
  v_at timestamptz := coalesce(p_belief_at, 'infinity');
begin
  return query
    with derived as (
      select j.justification_id, j.memory_id as conclusion_id, j.version, p.memory_id
        from memdb.justification j
        join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
       where j.tenant_id = p_tenant and j.memory_id = p_memory and j.recorded_at <= v_at
         and p.memory_id is not null and coalesce(p.added_at <= v_at, true)
      union all
      select j.justification_id, j.memory_id, j.version, j.memory_id
        from memdb.premise p
        join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
       where p.tenant_id = p_tenant and p.memory_id = p_memory and j.recorded_at <= v_at
         and coalesce(p.added_at <= v_at, true)),
    tie as (
      select e.to_memory_id as memory_id, e.weight
        from memdb.edge e
       where e.tenant_id = p_tenant and e.from_memory_id = p_memory and e.recorded_at <= v_at and e.retired_at is null
      union all
      select e.to_memory_id, e.weight
        from memdb.edge e
       where e.tenant_id = p_tenant and e.from_memory_id = p_memory and e.recorded_at <= v_at and e.retired_at > v_at
      union all
      select e.from_memory_id, e.weight
        from memdb.edge e
       where e.tenant_id = p_tenant and e.to_memory_id = p_memory and e.recorded_at <= v_at and e.retired_at is null
      union all
      select e.from_memory_id, e.weight
        from memdb.edge e
       where e.tenant_id = p_tenant and e.to_memory_id = p_memory and e.recorded_at <= v_at and e.retired_at > v_at
      union all
      select d.memory_id, 1
        from derived d
       where memdb._held(p_tenant, d.justification_id, v_at)
         and d.version = (select s.version from memdb._states_at(p_tenant, p_belief_at, p_world_at, array[d.conclusion_id]) s))
    select t.memory_id, max(t.weight)
      from tie t
     where t.memory_id <> p_memory
       and (p_namespaces is null
            or exists (select from memdb.memory m
                        where m.tenant_id = p_tenant and m.memory_id = t.memory_id and m.namespace_id = any (p_namespaces)))
     group by t.memory_id
     order by max(t.weight) desc, t.memory_id
     limit p_fan_out;
end $$;
comment on function memdb._adjacent_then (integer, bigint, integer[], timestamptz, timestamptz, integer) is 'The strongest ties of one memory, as _adjacent, at a time about a time.';

-- _waiting_then: the newest events of a namespace whose extraction was open at a time, among the last 1,000 recorded by then.
create or replace function memdb._waiting_then (p_tenant integer, p_namespace integer, p_at timestamptz, p_limit integer)
  returns table (event_id bigint)
  language plpgsql stable rows 50
as $$
begin
  return query
    select e.event_id
      from (select e.event_id from memdb.event e
             where e.tenant_id = p_tenant and e.namespace_id = p_namespace and e.recorded_at <= p_at
             order by e.event_id desc
             limit 1000) e
      join memdb.extraction x on x.tenant_id = p_tenant and x.event_id = e.event_id
     where (x.state <> 'done' or x.finished_at > p_at)
       and not exists (select from memdb.erasure_item i
                        where i.tenant_id = p_tenant and i.subject = 'event' and i.subject_id = e.event_id)
     order by e.event_id desc
     limit p_limit;
end $$;
comment on function memdb._waiting_then (integer, integer, timestamptz, integer) is 'The newest events of a namespace whose extraction was open at a time, among the last 1,000 recorded by then.';
