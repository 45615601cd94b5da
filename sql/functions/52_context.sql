-- The neighbours leg: a turn of speech is understood with the turns around it.
--
-- A question often shares some words with one turn and the rest with the next. So a memory is
-- scored by what it and its neighbours hold together: matches are pooled over a window of two
-- before and two after, and saturate only then (adding up finished scores is 2 to 3 points worse).
-- Neighbours follow each other in a session; without one, in time, at most six hours apart.

-- _next_to: up to p_reach memories on either side of one.
--
-- In its session by place; without one, in time, among what the same user has in the namespace
-- within six hours, looked for in the 50 rows that come first, lest a busy namespace be read
-- through; and only for what happened (observation, action, result): facts written together have
-- nothing to do with each other. Only what the recall may return counts. Plain, so that the
-- planner inlines it.
create or replace function memdb._next_to (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_memory     memdb.memory,
  p_reach      integer,
  p_also       memdb._recall_filter default null
)
  returns setof memdb.memory
  language sql stable rows 4
begin atomic
  (select m.* from memdb.memory m
    where m.tenant_id = p_tenant and m.session_id = (p_memory).session_id and m.sequence <= (p_memory).sequence
      and (m.sequence, m.memory_id) < ((p_memory).sequence, (p_memory).memory_id)
      and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
    order by m.sequence desc, m.memory_id desc
    limit p_reach)
  union all
  (select m.* from memdb.memory m
    where m.tenant_id = p_tenant and m.session_id = (p_memory).session_id and m.sequence >= (p_memory).sequence
      and (m.sequence, m.memory_id) > ((p_memory).sequence, (p_memory).memory_id)
      and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
    order by m.sequence, m.memory_id
    limit p_reach)
  union all
  (select m.*
     from (select m.* from memdb.memory m
            where (p_memory).session_id is null and (p_memory).type in ('observation', 'action', 'result')
              and m.tenant_id = p_tenant and m.namespace_id = (p_memory).namespace_id
              and (m.occurred_at, m.memory_id) < ((p_memory).occurred_at, (p_memory).memory_id)
              and m.occurred_at >= (p_memory).occurred_at - interval '6 hours'
            order by m.occurred_at desc, m.memory_id desc
            limit 50) m
    where m.session_id is null and m.type in ('observation', 'action', 'result')
      and m.user_id is not distinct from (p_memory).user_id
      and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
    order by m.occurred_at desc, m.memory_id desc
    limit p_reach)
  union all
  (select m.*
     from (select m.* from memdb.memory m
            where (p_memory).session_id is null and (p_memory).type in ('observation', 'action', 'result')
              and m.tenant_id = p_tenant and m.namespace_id = (p_memory).namespace_id
              and (m.occurred_at, m.memory_id) > ((p_memory).occurred_at, (p_memory).memory_id)
              and m.occurred_at <= (p_memory).occurred_at + interval '6 hours'
            order by m.occurred_at, m.memory_id
            limit 50) m
    where m.session_id is null and m.type in ('observation', 'action', 'result')
      and m.user_id is not distinct from (p_memory).user_id
      and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
    order by m.occurred_at, m.memory_id
    limit p_reach);
end;
comment on function memdb._next_to (integer, integer[], text, bigint[], text[], text[], memdb.memory, integer, memdb._recall_filter) is 'Up to p_reach memories on either side of one.';

-- _context_rows: the keyword leg's hits with their neighbours, and the nearest vectors, in reading order.
--
-- Each of the 40 best hits brings up to p_width memories on either side: those of more help nothing
-- (docs/decisions/0019). places number the rows: those of two
-- rows differ by d where one is the d-th neighbour of the other, and by more than p_width where
-- they are no neighbours; a nearest vector that lies beside no hit stands alone. What lies between two
-- hits is not read, so rows of two of them are neighbours only where one hit brought both. by_hit says which
-- rows the hits brought; factors is the _memory_factor of each.
-- With a time given, all of it is as it was then (57_past).
create or replace function memdb._context_rows (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_hits       bigint[],
  p_nearest    bigint[],
  p_width      integer,
  p_belief_at  timestamptz default null,
  p_world_at   timestamptz default null,
  p_also       memdb._recall_filter default null,
  out memory_ids  bigint[],
  out versions    integer[],
  out occurred_at timestamptz[],
  out namespaces  integer[],
  out factors     double precision[],
  out places      bigint[],
  out by_hit      boolean[]
)
  language plpgsql stable
as $$
declare
  v_is_now boolean := p_belief_at is null and p_world_at is null;
begin
  with hit as materialized (
    -- All ids in one scan: it reads a page of the index once for all ids on it, a look-up for each reads it again.
    select m, m.memory_id = any (p_hits[:40]) as leads
      from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (p_hits) and v_is_now
    union all
    select m, m.memory_id = any (p_hits[:40])
      from memdb._memories_then(p_tenant, p_hits, p_namespaces, p_user, p_sessions, p_types, p_statuses,
                                p_belief_at, p_world_at, p_also) m
     where not v_is_now),
  found as (
    select (h.m).memory_id, (h.m).version, (h.m).occurred_at, (h.m).namespace_id, (h.m).session_id, (h.m).sequence, (h.m).user_id, (h.m).type,
           memdb._memory_factor((h.m).importance, (h.m).confidence, (h.m).trust, (h.m).status, (h.m).tier) as factor, h.leads
      from hit h
    union all
    select n.memory_id, n.version, n.occurred_at, n.namespace_id, n.session_id, n.sequence, n.user_id, n.type,
           memdb._memory_factor(n.importance, n.confidence, n.trust, n.status, n.tier), false
      from hit h
      cross join lateral memdb._next_to(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, h.m, p_width, p_also) n
     where h.leads and p_width > 0 and v_is_now
    union all
    select n.memory_id, n.version, n.occurred_at, n.namespace_id, n.session_id, n.sequence, n.user_id, n.type,
           memdb._memory_factor(n.importance, n.confidence, n.trust, n.status, n.tier), false
      from hit h
      cross join lateral memdb._next_then(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, h.m, p_width,
                                          p_belief_at, p_world_at, p_also) n
     where h.leads and p_width > 0 and not v_is_now),
  -- A line is a session, or what one user has in a namespace without one; spot is the place in it. Sorted once: what follows
  -- goes in the same order.
  told as (
    select f.*, lag(f.memory_id) over (order by f.line, f.owner, f.spot, f.memory_id, f.leads desc) = f.memory_id as is_repeated
      from (select f.*, coalesce(f.session_id, -f.namespace_id) as line, case when f.session_id is null then f.user_id end as owner,
                   case when f.session_id is not null then f.sequence
                        when f.type in ('observation', 'action', 'result') then date_part('epoch', f.occurred_at) end as spot
              from found f) f),
  ordered as (
    select t.*,
           t.line = lag(t.line) over reading and t.owner is not distinct from lag(t.owner) over reading
           and (t.line > 0 or t.spot <= lag(t.spot) over reading + 21600)
           and bool_or(t.leads) over (reading rows between p_width preceding and greatest(p_width - 1, 0) following) as is_next
      from told t
     where t.is_repeated is not true
    window reading as (order by t.line, t.owner, t.spot, t.memory_id)),
  placed as materialized (
    select o.memory_id, o.version, o.occurred_at, o.namespace_id, o.factor,
           sum(case when o.is_next then 1 else p_width + 1 end) over (order by o.line, o.owner, o.spot, o.memory_id rows unbounded preceding) as place
      from ordered o),
  kept as (
    select p.memory_id, p.version, p.occurred_at, p.namespace_id, p.factor, p.place, true as by_hit from placed p
    union all
    select m.memory_id, m.version, m.occurred_at, m.namespace_id,
           memdb._memory_factor(m.importance, m.confidence, m.trust, m.status, m.tier),
           -(p_width + 1) * array_position(p_nearest, m.memory_id), false
      from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (array(select n.id from unnest(p_nearest) n (id)
                                                                where not exists (select from placed p where p.memory_id = n.id)))
       and v_is_now
    union all
    select m.memory_id, m.version, m.occurred_at, m.namespace_id,
           memdb._memory_factor(m.importance, m.confidence, m.trust, m.status, m.tier),
           -(p_width + 1) * array_position(p_nearest, m.memory_id), false
      from memdb._memories_then(p_tenant, p_nearest, p_namespaces, p_user, p_sessions, p_types, p_statuses,
                                p_belief_at, p_world_at, p_also) m
     where not v_is_now and not exists (select from placed p where p.memory_id = m.memory_id))
  select array_agg(k.memory_id), array_agg(k.version), array_agg(k.occurred_at), array_agg(k.namespace_id),
         array_agg(k.factor), array_agg(k.place), array_agg(k.by_hit)
    into memory_ids, versions, occurred_at, namespaces, factors, places, by_hit
    from kept k;
end $$;
comment on function memdb._context_rows (integer, integer[], text, bigint[], text[], text[], bigint[], bigint[], integer, timestamptz, timestamptz, memdb._recall_filter) is 'The keyword leg''s hits with their neighbours, and the nearest vectors, in reading order.';

-- _window_scores: BM25 of memories over what they and their neighbours hold together.
--
-- The arrays are those of _context_rows; the answers go beside them. A term counts fully in the
-- memory itself, by 0.3 in one of the two before and by 0.2 in one of the two after. While the
-- versions are at hand, their causing events come along, and whether they ask: end in a question mark.
create or replace function memdb._window_scores (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_places     bigint[],
  p_terms      text[],
  p_idf        double precision[],
  p_mean       double precision,
  p_width      integer,
  out scores    double precision[],
  out event_ids bigint[],
  out asks      boolean[]
)
  language plpgsql stable
  -- Ten rows are guessed of any array, and hundreds would be compared with hundreds one by one.
  set enable_nestloop = off
as $$
declare
  v_any tsquery := memdb._any_term(p_terms)::tsquery;
begin
  with row as materialized (
    select r.place, r.number, v.keyword, v.scope, v.event_id, v.asks
      from unnest(p_memory_ids, p_versions, p_places) with ordinality r (memory_id, version, place, number)
      join (
        -- Most neighbours hold none of the terms: their lexemes need not be taken apart.
        select v.memory_id, v.version, case when v.keyword @@ v_any then setweight(v.keyword, 'A', p_terms) end as keyword, 3 as scope,
               v.event_id, v.text like any ('{%?%,%？%}') and right(rtrim(right(v.text, 20), E' \t\r\n'), 1) in ('?', '？') as asks
          from memdb.memory_version v
         where v.tenant_id = p_tenant and v.memory_id = any (p_memory_ids)
        offset 0) v
        on v.memory_id = r.memory_id and v.version = r.version),
  -- Once: joined below with every step, it would unpack the keywords of every row for each of them.
  held as materialized (
    select x.place, t.number, t.idf, memdb._presence(x.length, p_mean) as weight
      from (select r.place, length(r.keyword) - r.scope as length, unnest(tsvector_to_array(ts_filter(r.keyword, '{a}'))) as term
              from row r) x
      join unnest(p_terms, p_idf) with ordinality t (term, idf, number) on t.term = x.term),
  pooled as (
    select h.place + d.step as place, h.idf * memdb._saturate(sum(h.weight * d.share)) as score
      from held h
      cross join (values (0, 1.0::double precision), (1, 0.3), (2, 0.3), (-1, 0.2), (-2, 0.2)) d (step, share)
     where d.step between -p_width and p_width
     group by 1, h.number, h.idf),
  scored as (
    select p.place, sum(p.score) as score from pooled p group by p.place)
  select array_agg(coalesce(s.score, 0) order by r.number), array_agg(r.event_id order by r.number), array_agg(r.asks order by r.number)
    into scores, event_ids, asks
    from row r
    left join scored s on s.place = r.place;
end $$;
comment on function memdb._window_scores (integer, bigint[], integer[], bigint[], text[], double precision[], double precision, integer) is 'BM25 of memories over what they and their neighbours hold together.';
