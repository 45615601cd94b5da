-- Evaluation: questions that were really asked, what they must find, and whether what is found has reasons.

-- sample_queries: distinct questions from the log of recalls, a random sample of one namespace.
--
-- p_namespace: recalls that looked there, alone or among others. p_limit: at most so many, 1 to 10,000. p_days: asked within so many
-- days. p_seed: the same seed gives the same sample of the same log. Questions that are golden already are marked. Questions
-- that differ in space and case alone are one, as it was asked last. Left out: pages after the first, and recalls of the past.
-- Operators only (MD303): questions quote what any user asked. Raises MD001, MD102, MD301. Cost: reads the log of those days.
create or replace function memdb.sample_queries (
  p_tenant    integer,
  p_namespace text    default 'default',
  p_limit     integer default 50,
  p_days      integer default 90,
  p_seed      integer default 0
)
  returns table (query text, asked bigint, last_asked_at timestamptz, is_golden boolean)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_space integer;
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  if not coalesce(p_limit between 1 and 10000 and p_days between 1 and 36500, false) then
    perform memdb._raise('MD001', 'a sample has 1 to 10,000 questions of 1 to 36,500 days', jsonb_build_object('field', 'limit'));
  end if;
  v_space := (memdb._readable(p_tenant, array[p_namespace], null))[1];
  return query
    with asked as (
      select lower(regexp_replace(btrim(r.query) collate pg_catalog.pg_c_utf8, '\s+', ' ', 'g')) as folded, r.query, r.recorded_at, r.recall_id
        from memdb.recall r
       where r.tenant_id = p_tenant and r.recorded_at >= memdb.current_time() - p_days * interval '1 day' and r.query ~ '\S'
         and (r.namespace_ids is null or v_space = any (r.namespace_ids))
         and not r.arguments ?| array['offset', 'as_of_belief', 'as_of_world']),
    distinct_asked as (
      select (array_agg(a.query order by a.recorded_at desc, a.recall_id desc))[1] as query, count(*) as asked,
             max(a.recorded_at) as last_asked_at
        from asked a
       group by a.folded
       order by hashtextextended(a.folded, p_seed), a.folded
       limit p_limit)
    select d.query, d.asked, d.last_asked_at,
           exists (select from memdb.golden_query g where g.tenant_id = p_tenant and g.namespace_id = v_space and g.query = d.query)
      from distinct_asked d
     order by d.asked desc, d.query;
end $$;
comment on function memdb.sample_queries (integer, text, integer, integer, integer) is 'Distinct questions from the log of recalls, a random sample of one namespace.';

-- list_golden_queries: the questions of which the answers are known, with the memories they must find.
--
-- p_namespaces: these, exactly; null = all the caller may read. found and asked_at: how many were found when the job asked last.
-- Raises MD102, MD301, MD302.
create or replace function memdb.list_golden_queries (p_tenant integer, p_namespaces text[] default null)
  returns table (golden_id bigint, namespace text, query text, memory_ids bigint[], k integer, found integer, asked_at timestamptz)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, p_namespaces, null);
  return query
    select g.golden_id, n.path, g.query, g.memory_ids, g.k, g.found, g.asked_at
      from memdb.golden_query g
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = g.namespace_id
     where g.tenant_id = p_tenant and (v_namespaces is null or g.namespace_id = any (v_namespaces))
     order by g.golden_id;
end $$;
comment on function memdb.list_golden_queries (integer, text[]) is 'The questions of which the answers are known, with the memories they must find.';

-- check_chains: whether the reasons of memories lead down to events, all the way.
--
-- is_complete: it has a reason, and every premise below it is an event or a memory that has reasons itself. has_hidden: something
-- below is in a namespace the caller may not read, and was not followed. depth and events: how far down, and how many events, are
-- met within 100 derivations. Memories the caller may not read do not come back. Raises MD301. Cost: that of explain_memory for each.
create or replace function memdb.check_chains (p_tenant integer, p_memory_ids bigint[])
  returns table (memory_id bigint, is_complete boolean, has_hidden boolean, depth integer, events bigint)
  language sql stable rows 10
begin atomic
  with memory_asked as (
    select m.memory_id from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)),
  premise_met as (
    select a.memory_id as root_id, r.*
      from memory_asked a
      cross join lateral memdb._premise_rows(p_tenant, array[a.memory_id], null, 100) r)
  select a.memory_id,
         count(p.root_id) > 0 and not coalesce(bool_or(p.memory_id is not null and not exists (
           select from premise_met q
            where q.root_id = p.root_id and q.conclusion_id = p.memory_id and q.conclusion_version = p.memory_version)), false),
         coalesce(bool_or(p.is_hidden), false), coalesce(max(p.depth), 0), count(distinct p.event_id)
    from memory_asked a
    left join premise_met p on p.root_id = a.memory_id
   group by a.memory_id
   order by a.memory_id;
end;
comment on function memdb.check_chains (integer, bigint[]) is 'Whether the reasons of memories lead down to events, all the way.';

-- measure_use: how much of what recalls returned was cited in answers.
--
-- p_namespaces: recalls that looked in these alone; null = all the caller may read. p_days: asked within so many days. recalls: all
-- of them; marked: those an answer said its citations of (mark_used); returned and used: memories of the marked ones. Runs
-- of an evaluation are not logged and do not count. Raises MD001, MD102, MD301, MD302. Cost: reads the log of those days.
create or replace function memdb.measure_use (p_tenant integer, p_namespaces text[] default null, p_days integer default 90)
  returns table (recalls bigint, marked bigint, returned bigint, used bigint)
  language plpgsql stable security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  if not coalesce(p_days between 1 and 36500, false) then
    perform memdb._raise('MD001', 'the days are 1 to 36,500', jsonb_build_object('field', 'days'));
  end if;
  v_namespaces := memdb._readable(p_tenant, p_namespaces, null);
  return query
    select count(*), count(r.used_at), coalesce(sum(cardinality(r.memory_ids)) filter (where r.used_at is not null), 0)::bigint,
           coalesce(sum(cardinality(r.used_ids)) filter (where r.used_at is not null), 0)::bigint
      from memdb.recall r
     where r.tenant_id = p_tenant and r.recorded_at >= memdb.current_time() - p_days * interval '1 day'
       and (v_namespaces is null or r.namespace_ids <@ v_namespaces);
end $$;
comment on function memdb.measure_use (integer, text[], integer) is 'How much of what recalls returned was cited in answers.';
