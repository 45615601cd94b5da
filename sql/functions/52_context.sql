-- The neighbours leg: a turn of speech is understood with the turns around it.
--
-- A question often shares some words with one turn and the rest with the next. So a memory is
-- scored by what it and its neighbours hold together: matches are pooled over a window of two
-- before and two after, and saturate only then (adding up finished scores is 2 to 3 points worse).
-- Neighbours follow each other in a session; without one, in time, at most six hours apart.

-- _context_rows: some memories with up to p_width x 2 neighbours on either side, in reading order.
--
-- p_hits bring their neighbours within p_width as further candidates, and the neighbours of those as context;
-- p_nearest are candidates themselves and bring context only. places number the rows so that
-- neighbours differ by one and strangers by more than p_width: valid for candidates, whose
-- windows are complete; the outer rows only help to judge them. reached says what made a row a candidate: 'hit'
-- (a hit or beside one), 'near', null for context.
create or replace function memdb._context_rows (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_session    bigint,
  p_types      text[],
  p_statuses   text[],
  p_hits       bigint[],
  p_nearest    bigint[],
  p_width      integer,
  out memory_ids bigint[],
  out versions   integer[],
  out places     bigint[],
  out reached    text[]
)
  language plpgsql stable
as $$
begin
  with seed as materialized (
    select m.*, s.is_hit
      from (select u.memory_id, bool_or(u.is_hit) as is_hit
              from (select h.id, true from unnest(p_hits) h (id) union all select n.id, false from unnest(p_nearest) n (id))
                   u (memory_id, is_hit)
             group by u.memory_id) s
      cross join lateral (select m.* from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = s.memory_id offset 0) m),
  found as (
    select s.memory_id, s.version, s.session_id, s.sequence, s.namespace_id, s.user_id, s.occurred_at,
           case when s.is_hit then 0 else 1 end as reach
      from seed s
    union all
    select n.memory_id, n.version, n.session_id, n.sequence, n.namespace_id, n.user_id, n.occurred_at,
           case when s.is_hit and n.distance <= p_width then 0 else 2 end
      from seed s
      cross join lateral (
        select b.*, row_number() over (order by b.sequence desc, b.memory_id desc) as distance
          from (select m.* from memdb.memory m
                 where m.tenant_id = p_tenant and m.session_id = s.session_id and m.sequence <= s.sequence
                   and (m.sequence, m.memory_id) < (s.sequence, s.memory_id)
                   and memdb._is_recallable(m, p_namespaces, p_user, p_session, p_types, p_statuses)
                 order by m.sequence desc, m.memory_id desc
                 limit case when s.is_hit then 2 * p_width else p_width end) b
        union all
        select a.*, row_number() over (order by a.sequence, a.memory_id)
          from (select m.* from memdb.memory m
                 where m.tenant_id = p_tenant and m.session_id = s.session_id and m.sequence >= s.sequence
                   and (m.sequence, m.memory_id) > (s.sequence, s.memory_id)
                   and memdb._is_recallable(m, p_namespaces, p_user, p_session, p_types, p_statuses)
                 order by m.sequence, m.memory_id
                 limit case when s.is_hit then 2 * p_width else p_width end) a
        union all
        select b.*, row_number() over (order by b.occurred_at desc, b.memory_id desc)
          from (select m.* from memdb.memory m
                 where s.session_id is null and m.tenant_id = p_tenant and m.namespace_id = s.namespace_id
                   and (m.occurred_at, m.memory_id) < (s.occurred_at, s.memory_id)
                   and m.occurred_at >= s.occurred_at - interval '6 hours'
                   and m.session_id is null and m.user_id is not distinct from s.user_id
                   and memdb._is_recallable(m, p_namespaces, p_user, p_session, p_types, p_statuses)
                 order by m.occurred_at desc, m.memory_id desc
                 limit case when s.is_hit then 2 * p_width else p_width end) b
        union all
        select a.*, row_number() over (order by a.occurred_at, a.memory_id)
          from (select m.* from memdb.memory m
                 where s.session_id is null and m.tenant_id = p_tenant and m.namespace_id = s.namespace_id
                   and (m.occurred_at, m.memory_id) > (s.occurred_at, s.memory_id)
                   and m.occurred_at <= s.occurred_at + interval '6 hours'
                   and m.session_id is null and m.user_id is not distinct from s.user_id
                   and memdb._is_recallable(m, p_namespaces, p_user, p_session, p_types, p_statuses)
                 order by m.occurred_at, m.memory_id
                 limit case when s.is_hit then 2 * p_width else p_width end) a) n),
  ordered as (
    select d.*, lag(d.memory_id) over reading is null
                or d.session_id is distinct from lag(d.session_id) over reading
                or (d.session_id is null
                    and (d.namespace_id <> lag(d.namespace_id) over reading
                         or d.user_id is distinct from lag(d.user_id) over reading
                         or d.occurred_at > lag(d.occurred_at) over reading + interval '6 hours')) as is_break,
           row_number() over reading as place
      from (select distinct on (f.memory_id) f.* from found f order by f.memory_id, f.reach) d
    window reading as (
      order by d.session_id, case when d.session_id is null then d.namespace_id end,
               case when d.session_id is null then d.user_id end, case when d.session_id is null then d.occurred_at end,
               d.sequence, d.memory_id)),
  placed as (
    select o.*, o.place + (p_width + 1) * count(*) filter (where o.is_break) over (order by o.place) as spaced
      from ordered o)
  select array_agg(p.memory_id order by p.place), array_agg(p.version order by p.place), array_agg(p.spaced order by p.place),
         array_agg(case p.reach when 0 then 'hit' when 1 then 'near' end order by p.place)
    into memory_ids, versions, places, reached
    from placed p;
end $$;
comment on function memdb._context_rows (integer, integer[], text, bigint, text[], text[], bigint[], bigint[], integer) is 'Some memories with up to p_width x 2 neighbours on either side, in reading order.';

-- _window_scores: BM25 of candidates over what they and their neighbours hold together.
--
-- The arrays are those of _context_rows. A term counts fully in the memory itself, by 0.3 in one
-- of the two before and by 0.2 in one of the two after. Null for rows that are context only.
create or replace function memdb._window_scores (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_places     bigint[],
  p_reached    text[],
  p_terms      text[],
  p_idf        double precision[],
  p_mean       double precision,
  p_width      integer
)
  returns double precision[]
  language plpgsql stable
as $$
declare
  v_scores double precision[];
begin
  with row as materialized (
    select r.* from unnest(p_memory_ids, p_versions, p_places, p_reached) r (memory_id, version, place, reached)),
  term as materialized (
    select t.* from unnest(p_terms, p_idf) with ordinality t (term, idf, number)),
  held as materialized (
    select x.place, t.number, memdb._presence(x.length, p_mean) as weight
      from (select r.place, length(v.keyword) - v.scope as length, unnest(tsvector_to_array(ts_filter(v.keyword, '{a}'))) as term
              from row r
              cross join lateral (
                select setweight(v.keyword, 'A', p_terms) as keyword, case when v.user_id is null then 2 else 3 end as scope
                  from memdb.memory_version v
                 where v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version
                offset 0) v) x
      join term t on t.term = x.term),
  pooled as (
    select c.place, h.number, sum(h.weight * d.share) as weight
      from held h
      cross join (values (0, 1.0::double precision), (1, 0.3), (2, 0.3), (-1, 0.2), (-2, 0.2)) d (step, share)
      join row c on c.place = h.place + d.step and c.reached is not null
     where d.step between -p_width and p_width
     group by c.place, h.number),
  scored as (
    select p.place, sum(t.idf * memdb._saturate(p.weight)) as score
      from pooled p
      join term t on t.number = p.number
     group by p.place)
  select array_agg(case when r.reached is not null then coalesce(s.score, 0) end order by r.place)
    into v_scores
    from row r
    left join scored s on s.place = r.place;
  return v_scores;
end $$;
comment on function memdb._window_scores (integer, bigint[], integer[], bigint[], text[], text[], double precision[], double precision, integer) is 'BM25 of candidates over what they and their neighbours hold together.';
