-- Ranking: what the legs found becomes one order.
--
-- Scores of different legs are not comparable as they stand: they are standardised over one pool
-- and added. The sum is read as log odds, so that the factors of a memory (importance, status, ...)
-- multiply the odds, and graph neighbours inherit a share of them.

-- _words: a text as its words in lower case between single spaces, for looking whole words up.
--
-- Letters are those of Unicode, in a database of any locale. Characters of scripts without spaces are
-- left out: names in them are found as they stand.
create or replace function memdb._words (p_text text)
  returns text
  language sql immutable parallel safe
begin atomic
  select ' ' || btrim(regexp_replace(lower(normalize(p_text, nfkc) collate pg_catalog.pg_c_utf8),
    '[^[:alnum:]]+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+',
    ' ', 'g')) || ' ';
end;
comment on function memdb._words (text) is 'A text as its words in lower case between single spaces, for looking whole words up.';

-- _is_named: whether a query names somebody; p_words are the query's _words.
create or replace function memdb._is_named (p_name text, p_query text, p_words text)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select case when p_name is null or p_name = '' then false
              when memdb._words(p_name) = '  ' then position(memdb.folded_text_v1(p_name) in memdb.folded_text_v1(p_query)) > 0
              else position(memdb._words(p_name) in p_words) > 0 end;
end;
comment on function memdb._is_named (text, text, text) is 'Whether a query names somebody; p_words are the query''s _words.';

-- _pool: the candidates worth ranking, with what is known of each.
--
-- The first arrays are those of _context_rows with their _window_scores. In come the p_limit best
-- of what the hits brought, everything the vector leg found, and the fresh events. keyword takes in
-- what the moment is worth for the best of the spans the query names: when it happened, since when
-- it holds, or a day its words name. closeness is
-- the cosine above the pool's mean, plus a tenth of that of each neighbour; 0 without a vector.
-- bonus is what a memory's own factors add to its log odds, 0.4 where the query names its speaker,
-- and -0.3 for a text that ends in a question mark: it asks, it does not tell.
create or replace function memdb._pool (
  p_tenant      integer,
  p_namespaces  integer[],
  p_agent       text,
  p_query       text,
  p_memory_ids  bigint[],
  p_versions    integer[],
  p_occurred_at timestamptz[],
  p_in          integer[],
  p_factors     double precision[],
  p_places      bigint[],
  p_by_hit      boolean[],
  p_keyword     double precision[],
  p_causes      bigint[],
  p_asks        boolean[],
  p_nearest     bigint[],
  p_similarity  double precision[],
  p_model       integer,
  p_vector      halfvec,
  p_width       integer,
  p_from_at     timestamptz[],
  p_to_at       timestamptz[],
  p_worth       double precision[],
  p_event_ids   bigint[],
  p_fresh       double precision[],
  p_limit       integer
)
  returns table (memory_id bigint, version integer, event_id bigint, keyword double precision, closeness double precision,
                 bonus double precision)
  language plpgsql stable rows 100
as $$
declare
  v_words text := memdb._words(p_query);
begin
  return query
    with row as (
      select r.memory_id, r.version, r.namespace_id, r.factor, r.place, r.by_hit, r.cause, r.asks, n.similarity,
             r.keyword + case when p_from_at is null then 0 else
               (select max(s.worth * memdb._time_fade(a.at, s.from_at, s.to_at))
                  from memdb.memory_version v
                  cross join lateral (select r.occurred_at union all select o.at from memdb._told_times(v.valid_from, v.metadata) o (at)) a (at)
                  cross join unnest(p_from_at, p_to_at, p_worth) s (from_at, to_at, worth)
                 where v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version) end as keyword
        from unnest(p_memory_ids, p_versions, p_occurred_at, p_in, p_factors, p_places, p_by_hit, p_keyword, p_causes, p_asks)
             r (memory_id, version, occurred_at, namespace_id, factor, place, by_hit, keyword, cause, asks)
        left join unnest(p_nearest, p_similarity) n (memory_id, similarity) on n.memory_id = r.memory_id),
    chosen as (
      select r.*, r.by_hit is false or r.similarity is not null
             or row_number() over (partition by r.by_hit order by r.keyword desc, r.memory_id) <= p_limit as is_pooled
        from row r),
    around as materialized (
      select c.*
        from (select c.*, bool_or(c.is_pooled) over (order by c.place range between p_width preceding and p_width following) as is_near
                from chosen c) c
       where c.is_near),
    -- All in one scan of each index, which reads a page once for all ids on it; so versions are told apart below.
    other as materialized (select array_agg(a.memory_id) as ids from around a where a.similarity is null and p_vector is not null),
    measured as (
      select e.memory_id, e.version, -(e.vector <#> p_vector) as similarity from memdb.embedding e
       where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = any ((select o.ids from other o)::bigint[])
      union  -- not all: nothing may be in the pool twice
      select e.memory_id, e.version, -(e.vector <#> p_vector) from memdb.embedding_cold e
       where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = any ((select o.ids from other o)::bigint[])),
    -- A full join is none of nested loops: ten rows are guessed of any array, and hundreds would be compared with hundreds.
    compared as (
      select r.*, r.similarity - avg(r.similarity) filter (where r.is_pooled) over () as above
        from (select a.memory_id, a.version, a.namespace_id, a.factor, a.place, a.cause, a.asks, a.keyword, a.is_pooled,
                     coalesce(a.similarity, m.similarity) as similarity
                from around a
                full join measured m on m.memory_id = a.memory_id and m.version = a.version) r),
    pooled as (
      select c.*
        from (select c.*, 0.9 * coalesce(c.above, 0) + 0.1 * coalesce(sum(c.above) over (
                       order by c.place range between p_width preceding and p_width following), 0) as closeness
                from compared c) c
       where c.is_pooled),
    said as materialized (
      select p.*, e.speaker from pooled p
        left join memdb.event e
          on e.tenant_id = p_tenant and e.event_id = p.cause and (p_namespaces is null or e.namespace_id = any (p_namespaces))),
    -- Each speaker is looked for in the query once, not with everything said.
    named as materialized (
      select s.speaker from (select distinct s.speaker from said s where s.speaker is not null) s
       where memdb._is_named(s.speaker, p_query, v_words))
    select p.memory_id, p.version, null::bigint, p.keyword, p.closeness,
           ln(p.factor) + coalesce(ln(g.weight), 0)
           + case when p.speaker in (select n.speaker from named n) then 0.4 else 0 end - case when p.asks then 0.3 else 0 end
      from said p
      left join memdb.agent_grant g
        on g.tenant_id = p_tenant and g.agent_id = p_agent and g.namespace_id = p.namespace_id
    union all
    select null, null, e.event_id,
           f.score + case when p_from_at is null then 0 else
             (select max(s.worth * memdb._time_fade(e.occurred_at, s.from_at, s.to_at))
                from unnest(p_from_at, p_to_at, p_worth) s (from_at, to_at, worth)) end, 0,
           case when memdb._is_named(e.speaker, p_query, v_words) then 0.4 else 0 end
           - case when right(rtrim(right(e.text, 20), E' \t\r\n'), 1) in ('?', '？') then 0.3 else 0 end
      from unnest(p_event_ids, p_fresh) f (event_id, score)
      join memdb.event e on e.tenant_id = p_tenant and e.event_id = f.event_id;
end $$;
comment on function memdb._pool (integer, integer[], text, text, bigint[], integer[], timestamptz[], integer[], double precision[], bigint[], boolean[], double precision[], bigint[], boolean[], bigint[], double precision[], integer, halfvec, integer, timestamptz[], timestamptz[], double precision[], bigint[], double precision[], integer) is 'The candidates worth ranking, with what is known of each.';

-- _graph_leg: memories tied to the best hits, with a share of their odds times their own factors.
--
-- p_scores are log odds. Each hop passes on a fifth of the odds times the weight of the tie; a
-- memory tied to several keeps the best. Its own factors (_memory_factor, the agent's weight for its
-- namespace) count for itself, and are not passed on. At most 16 ties of each memory and 100
-- memories a hop are followed. Without edges it costs a few index look-ups and finds nothing.
create or replace function memdb._graph_leg (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_seeds      bigint[],
  p_seed_scores double precision[],
  p_hops       integer,
  p_belief_at  timestamptz default null,
  p_world_at   timestamptz default null,
  p_also        memdb._recall_filter default null,
  p_agent       text default null,
  out memory_ids bigint[],
  out versions   integer[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_is_now boolean := p_belief_at is null and p_world_at is null;
  v_front  bigint[] := p_seeds;
  v_odds   double precision[] := p_seed_scores;
  v_next   record;
begin
  memory_ids := '{}'; versions := '{}'; scores := '{}';
  for v_hop in 1 .. p_hops loop
    select array_agg(b.memory_id order by b.score desc, b.memory_id) as ids,
           array_agg(b.version order by b.score desc, b.memory_id) as versions,
           array_agg(b.score order by b.score desc, b.memory_id) as scores,
           array_agg(b.odds order by b.score desc, b.memory_id) as odds
      into v_next
      from (select t.memory_id, m.version, t.score as odds, t.score + m.factor + coalesce(ln(g.weight::double precision), 0) as score
              from (select a.memory_id, max(f.score + ln(0.2 * a.weight)) as score
                      from unnest(v_front, v_odds) f (memory_id, score)
                      cross join lateral (
                        select a.* from memdb._adjacent(p_tenant, f.memory_id, p_namespaces, null, 16) a where v_is_now
                        union all
                        select a.* from memdb._adjacent_then(p_tenant, f.memory_id, p_namespaces, p_belief_at, p_world_at, 16) a
                         where not v_is_now) a
                     where a.memory_id <> all (memory_ids)
                     group by a.memory_id) t
              cross join lateral (
                select m.version, m.namespace_id,
                       ln(memdb._memory_factor(m.importance, m.confidence, m.trust, m.status, m.tier)) as factor
                  from memdb.memory m
                 where m.tenant_id = p_tenant and m.memory_id = t.memory_id and v_is_now
                   and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
                union all
                select m.version, m.namespace_id, ln(memdb._memory_factor(m.importance, m.confidence, m.trust, m.status, m.tier))
                  from memdb._memories_then(p_tenant, array[t.memory_id], p_namespaces, p_user, p_sessions, p_types, p_statuses,
                                            p_belief_at, p_world_at, p_also) m
                 where not v_is_now
                offset 0) m
              left join memdb.agent_grant g
                on g.tenant_id = p_tenant and g.agent_id = p_agent and g.namespace_id = m.namespace_id
             order by t.score desc, t.memory_id
             limit 100) b;
    exit when v_next.ids is null;
    memory_ids := memory_ids || v_next.ids;
    versions := versions || v_next.versions;
    scores := scores || v_next.scores;
    v_front := v_next.ids;
    v_odds := v_next.odds;
  end loop;
end $$;
comment on function memdb._graph_leg (integer, integer[], text, bigint[], text[], text[], bigint[], double precision[], integer, timestamptz, timestamptz, memdb._recall_filter, text) is 'Memories tied to the best hits, with a share of their odds times their own factors.';

-- _leg: rank and score of a hit in one leg, as recall shows them; null where the leg did not find it.
--
-- Stable as jsonb_build_object is: said to be immutable, it would not be inlined, and five a hit take half a millisecond.
create or replace function memdb._leg (p_rank bigint, p_score double precision)
  returns jsonb
  language sql stable parallel safe
begin atomic
  select case when p_rank is not null then jsonb_build_object('rank', p_rank, 'score', round(p_score::numeric, 4)) end;
end;
comment on function memdb._leg (bigint, double precision) is 'Rank and score of a hit in one leg, as recall shows them; null where the leg did not find it.';

-- _scored: the pool with its scores, best first.
--
-- S = z(keyword) + 0.6 z(closeness) + bonus over the pool. Arguments are those of _pool. Equal scores
-- come in order of id, so the same call gives the same order.
create or replace function memdb._scored (
  p_tenant      integer,
  p_namespaces  integer[],
  p_agent       text,
  p_query       text,
  p_memory_ids  bigint[],
  p_versions    integer[],
  p_occurred_at timestamptz[],
  p_in          integer[],
  p_factors     double precision[],
  p_places      bigint[],
  p_by_hit      boolean[],
  p_keyword     double precision[],
  p_causes      bigint[],
  p_asks        boolean[],
  p_nearest     bigint[],
  p_similarity  double precision[],
  p_model       integer,
  p_vector      halfvec,
  p_width       integer,
  p_from_at     timestamptz[],
  p_to_at       timestamptz[],
  p_worth       double precision[],
  p_event_ids   bigint[],
  p_fresh       double precision[],
  p_limit       integer,
  out memory_ids bigint[],
  out versions   integer[],
  out event_ids  bigint[],
  out scores     double precision[],
  out keywords   double precision[]
)
  language plpgsql stable
as $$
begin
  select array_agg(s.memory_id), array_agg(s.version), array_agg(s.event_id), array_agg(s.score), array_agg(s.keyword)
    into memory_ids, versions, event_ids, scores, keywords
    from (select p.memory_id, p.version, p.event_id, p.keyword,
                 (p.keyword - avg(p.keyword) over ()) / (stddev_pop(p.keyword) over () + 1e-9)
                 + (select memdb._closeness_weight(p_query)) * (p.closeness - avg(p.closeness) over ()) / (stddev_pop(p.closeness) over () + 1e-9)
                 + p.bonus as score
            from memdb._pool(p_tenant, p_namespaces, p_agent, p_query, p_memory_ids, p_versions, p_occurred_at, p_in, p_factors,
                   p_places, p_by_hit, p_keyword, p_causes, p_asks, p_nearest, p_similarity, p_model, p_vector, p_width,
                   p_from_at, p_to_at, p_worth, p_event_ids, p_fresh, p_limit) p
           order by 5 desc, 1, 3) s;
end $$;
comment on function memdb._scored (integer, integer[], text, text, bigint[], integer[], timestamptz[], integer[], double precision[], bigint[], boolean[], double precision[], bigint[], boolean[], bigint[], double precision[], integer, halfvec, integer, timestamptz[], timestamptz[], double precision[], bigint[], double precision[], integer) is 'The pool with its scores, best first.';

-- _ranked: the p_k best of everything the legs found.
--
-- The pool of _scored with what the graph leg found; score = 1 / (1 + exp(-S)). Equal scores come in
-- order of id. The arrays of each leg tell rank and score in it.
create or replace function memdb._ranked (
  p_memory_ids     bigint[],
  p_versions       integer[],
  p_events         bigint[],
  p_scores         double precision[],
  p_keywords       double precision[],
  p_graph_ids      bigint[],
  p_graph_versions integer[],
  p_graph_scores   double precision[],
  p_keyword_ids    bigint[],
  p_keyword_scores double precision[],
  p_near_ids       bigint[],
  p_near_scores    double precision[],
  p_event_ids      bigint[],
  p_fresh_scores   double precision[],
  p_width          integer,
  p_k              integer
)
  returns table (memory_id bigint, version integer, event_id bigint, score real, legs jsonb)
  language plpgsql stable rows 10
as $$
begin
  return query
    with pool as (
      select p.*, row_number() over (order by p.keyword desc, p.memory_id) as keyword_rank
        from unnest(p_memory_ids, p_versions, p_events, p_scores, p_keywords) p (memory_id, version, event_id, score, keyword)),
    best as (
      select coalesce(p.memory_id, g.memory_id) as memory_id, coalesce(p.version, g.version) as version, p.event_id,
             round(greatest(p.score, g.score)::numeric, 6) as score, p.keyword, p.keyword_rank,
             g.place as graph_rank, g.score as graph_score,
             array_position(p_keyword_ids, p.memory_id) as hit_rank, array_position(p_near_ids, p.memory_id) as near_rank,
             array_position(p_event_ids, p.event_id) as fresh_rank
        from pool p
        full join unnest(p_graph_ids, p_graph_versions, p_graph_scores) with ordinality g (memory_id, version, score, place)
          on g.memory_id = p.memory_id
       order by 4 desc, 1, 3
       limit p_k)
    select b.memory_id, b.version, b.event_id, (1 / (1 + exp(-greatest(b.score, -80)::double precision)))::real,
           jsonb_strip_nulls(jsonb_build_object(
             'keyword', memdb._leg(b.hit_rank, p_keyword_scores[b.hit_rank]),
             'vector', memdb._leg(b.near_rank, p_near_scores[b.near_rank]),
             'neighbour', memdb._leg(case when p_width > 0 and b.memory_id is not null and b.keyword > 0
                                          then b.keyword_rank end, b.keyword),
             'graph', memdb._leg(b.graph_rank, b.graph_score),
             'fresh', memdb._leg(b.fresh_rank, p_fresh_scores[b.fresh_rank])))
      from best b
     order by b.score desc, b.memory_id, b.event_id;
end $$;
comment on function memdb._ranked (bigint[], integer[], bigint[], double precision[], double precision[], bigint[], integer[], double precision[], bigint[], double precision[], bigint[], double precision[], bigint[], double precision[], integer, integer) is 'The p_k best of everything the legs found.';
