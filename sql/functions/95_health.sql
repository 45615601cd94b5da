-- Health: a few figures that tell whether memdb keeps up, each with what to do about it.

-- _writing_figures: how much is written, and how much of it says the same; percentages, null without material.
--
-- Fewer than 50 events, or 20 memories to compare, say nothing.
-- writes_per_turn: versions written from the last 1,000 events of each tenant, of 100 events. duplicate_share: of 200 memories
-- drawn from the latest 2,000 vectors, how many have another one of the same namespace and user among these with a cosine
-- over 0.9. Cost: 200,000 products of vectors at most, some 50 ms.
create or replace function memdb._writing_figures (p_tenants integer[], p_namespaces integer[])
  returns table (metric text, value double precision)
  language sql stable rows 2
  set search_path = pg_catalog, memdb, public, pg_temp
as $$
  select 'writes_per_turn',
         case when count(distinct (e.tenant_id, e.event_id)) >= 50 then 100.0 * count(v.memory_id) / count(distinct (e.tenant_id, e.event_id)) end
    from unnest(p_tenants) t (tenant_id)
    cross join lateral (select e.tenant_id, e.event_id from memdb.event e
                         where e.tenant_id = t.tenant_id and (p_namespaces is null or e.namespace_id = any (p_namespaces))
                         order by e.event_id desc limit 1000) e
    left join memdb.memory_version v on v.tenant_id = e.tenant_id and v.event_id = e.event_id
  union all
  (with latest as materialized (
     select v.*
       from unnest(p_tenants) t (tenant_id)
       join memdb.embedding_model d on d.tenant_id = t.tenant_id and d.state = 'active'
       cross join lateral (select v.tenant_id, v.namespace_id, v.user_id, v.memory_id, v.vector from memdb.embedding v
                            where v.tenant_id = t.tenant_id and v.model_id = d.model_id
                              and (p_namespaces is null or v.namespace_id = any (p_namespaces))
                            order by v.memory_id desc limit 2000) v
      limit 2000),
   sampled as materialized (select l.* from latest l order by md5(l.memory_id::text) limit 200)
   select 'duplicate_share', case when count(*) >= 20 then 100 * avg((n.closest > 0.9)::integer) end
     from sampled s
     cross join lateral (select max(-(l.vector <#> s.vector)) as closest from latest l
                          where l.tenant_id = s.tenant_id and l.namespace_id = s.namespace_id
                            and l.user_id is not distinct from s.user_id and l.memory_id <> s.memory_id) n
    where n.closest is not null);
$$;
comment on function memdb._writing_figures (integer[], integer[]) is 'How much is written, and how much of it says the same; percentages, null without material.';

-- _life_figures: how many memories are in which tier, and whether the jobs that move them keep up.
--
-- Cost: reads table memory once (150 ms a million rows), the rest are look-ups.
create or replace function memdb._life_figures (p_tenants integer[], p_namespaces integer[])
  returns table (metric text, value double precision)
  language sql stable rows 10
as $$
  with tier as (
    select m.tier, count(*) as memories from memdb.memory m
     where m.tenant_id = any (p_tenants) and (p_namespaces is null or m.namespace_id = any (p_namespaces))
     group by m.tier),
  job as materialized (select j.* from memdb.job j where j.tenant_id = any (p_tenants) and j.is_enabled)
  select 'memories_' || s.tier, coalesce(t.memories, 0)
    from unnest(array['working', 'short_term', 'long_term', 'archive']) s (tier) left join tier t on t.tier = s.tier
  union all
  select 'uses_waiting', count(*) from (select from memdb.memory_use u where u.tenant_id = any (p_tenants) limit 1000000) u
  union all
  select 'fading_late', coalesce(max(extract(epoch from memdb.current_time() - f.first)), 0)
    from unnest(p_tenants) t (tenant_id)
    cross join lateral (select min(m.fades_at) as first from memdb.memory m
                         where m.tenant_id = t.tenant_id and m.fades_at <= memdb.current_time()) f
   where f.first > '2000-01-01'
  union all
  select 'jobs_late', count(*) from job j
   where j.next_at < memdb.current_time() - make_interval(secs => greatest(3600, coalesce(j.every_seconds, 86400)))
  union all
  select 'jobs_failing', count(*) from job j where j.failures > 0
  union all
  select 'check_differences', count(*)
    from unnest(p_tenants) t (tenant_id)
    cross join lateral (select r.outcome from memdb.job_run r where r.tenant_id = t.tenant_id and r.name = 'check' and r.finished_at is not null
                         order by r.run_id desc limit 1) r
   where r.outcome = 'warned'
  union all
  select 'golden_missing', count(*) from memdb.golden_query g
   where g.tenant_id = any (p_tenants) and g.found < cardinality(g.memory_ids)
     and (p_namespaces is null or g.namespace_id = any (p_namespaces));
$$;
comment on function memdb._life_figures (integer[], integer[]) is 'How many memories are in which tier, and whether the jobs that move them keep up.';

-- _recall_figures: how many of the last 1,000 recalls took over 200 ms, and what their legs took.
create or replace function memdb._recall_figures (p_tenants integer[])
  returns table (metric text, value double precision)
  language sql stable rows 6
as $$
  with latest as materialized (
    select r.elapsed_ms, r.timing
      from unnest(p_tenants) t (tenant_id)
      cross join lateral (select l.elapsed_ms, l.timing, l.recorded_at from memdb.recall l
                           where l.tenant_id = t.tenant_id and l.elapsed_ms is not null
                           order by l.recall_id desc limit 1000) r
     order by r.recorded_at desc
     limit 1000)
  select 'slow_recalls', 100.0 * avg((l.elapsed_ms > 200)::integer) from latest l
  union all
  select 'leg_' || s.leg || '_p95',
         (select percentile_cont(0.95) within group (order by (l.timing -> 'legs' ->> s.leg)::double precision) from latest l)
    from unnest(array['keyword', 'vector', 'neighbour', 'graph', 'fresh']) s (leg);
$$;
comment on function memdb._recall_figures (integer[]) is 'How many of the last 1,000 recalls took over 200 ms, and what their legs took.';

-- _database_figures: what only the administrator of the whole database sees: its size, dead rows, the graph.
--
-- Operators only (MD303). dead_rows: the worst share of a table of 10,000 rows or more, in percent. lens_drift: vertices and edges that differ from
-- the tables; null where there is no graph, or more than 200,000 memories (the job check compares them then).
create or replace function memdb._database_figures ()
  returns table (metric text, value double precision)
  language plpgsql stable security definer rows 6
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  return query
    select 'tenants', (select count(*) from memdb.tenant)::double precision
    union all
    select 'database_size', pg_database_size(current_database())::double precision
    union all
    select 'dead_rows', (select max(100.0 * s.n_dead_tup / (s.n_dead_tup + s.n_live_tup)) from pg_stat_user_tables s
                          where s.schemaname = 'memdb' and s.n_dead_tup + s.n_live_tup >= 10000)::double precision
    union all
    select 'test_clock', (select count(*) from memdb.schema_info s where s.key = 'test_clock' and s.value = 'on')::double precision
    union all
    select 'lens_drift', case when memdb._graph_is_on() and (select c.reltuples <= 200000 from pg_class c where c.oid = 'memdb.memory'::regclass)
                              then (select count(*) from memdb.tenant t cross join lateral memdb._lens_drift(t.tenant_id) d) end::double precision;
end $$;
comment on function memdb._database_figures () is 'What only the administrator of the whole database sees: its size, dead rows, the graph.';

-- _health_values: the figures behind health for some tenants, within what the caller may see of them.
--
-- Memories by status come from open beliefs: a memory without one is active. Cost: two index-only
-- scans over events and memories (about a second per 10 million rows when vacuumed), the belief
-- history and the queues; nothing reads texts or vectors. Raises MD301, MD101.
create or replace function memdb._health_values (p_tenants integer[])
  returns table (metric text, value double precision)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(t.tenant_id, false) from unnest(p_tenants) t (tenant_id);
  if not memdb._is_operator() and not p_tenants <@ memdb.bound_tenants() then
    v_namespaces := array(select n.namespace_id from memdb.namespace n
                           where n.tenant_id = any (memdb.bound_tenants()) or n.namespace_id = any (memdb.bound_namespaces()));
  end if;
  return query
    with belief as (
      select b.status, count(*) as memories
        from memdb.belief b
       where b.tenant_id = any (p_tenants) and b.subject = 'memory' and b.to_at is null
         and (v_namespaces is null or b.namespace_id = any (v_namespaces))
       group by b.status),
    work as (
      select x.tenant_id, x.event_id, x.state
        from memdb.extraction x
       where x.tenant_id = any (p_tenants) and x.state in ('pending', 'leased', 'failed', 'dead')
         and (v_namespaces is null or x.namespace_id = any (v_namespaces))),
    queue as (
      select q.attempts >= memdb._max_attempts() as is_failed
        from memdb.embedding_queue q
        join memdb.embedding_model m on m.tenant_id = q.tenant_id and m.model_id = q.model_id and m.state <> 'retired'
       where q.tenant_id = any (p_tenants) and (v_namespaces is null or q.namespace_id = any (v_namespaces))),
    latest as (
      select r.elapsed_ms, r.used_ids, r.is_cached, r.is_kept
        from unnest(p_tenants) t (tenant_id)
        cross join lateral (select l.elapsed_ms, l.recorded_at, l.used_ids, l.timing ? 'cached' as is_cached,
                                   (l.timing -> 'reasons_kept')::boolean as is_kept from memdb.recall l
                             where l.tenant_id = t.tenant_id and l.elapsed_ms is not null
                             order by l.recall_id desc limit 1000) r
       order by r.recorded_at desc
       limit 1000)
    select 'events', count(*) from memdb.event e
     where e.tenant_id = any (p_tenants) and (v_namespaces is null or e.namespace_id = any (v_namespaces))
    union all
    select 'memories_active', count(*) - (select coalesce(sum(b.memories), 0) from belief b) from memdb.memory m
     where m.tenant_id = any (p_tenants) and (v_namespaces is null or m.namespace_id = any (v_namespaces))
    union all
    select 'memories_' || s.status, coalesce(b.memories, 0)
      from unnest(array['stale', 'contradicted', 'superseded', 'retracted']) s (status) left join belief b on b.status = s.status
    union all
    select 'events_waiting', count(*) from work w where w.state <> 'dead'
    union all
    select 'events_failed', count(*) from work w where w.state = 'dead'
    union all
    select 'oldest_wait', coalesce(extract(epoch from memdb.current_time() - min(e.recorded_at)), 0)
      from (select w.tenant_id, min(w.event_id) as event_id from work w where w.state <> 'dead' group by w.tenant_id) w
      join memdb.event e on e.tenant_id = w.tenant_id and e.event_id = w.event_id
    union all
    select 'vectors_waiting', count(*) from queue q where not q.is_failed
    union all
    select 'vectors_failed', count(*) from queue q where q.is_failed
    union all
    select 'keyword_queue', count(*) from memdb.keyword_queue q
     where q.tenant_id = any (p_tenants) and (v_namespaces is null or q.namespace_id = any (v_namespaces))
    union all
    select 'conflicts', count(*) from memdb.review_item i
     where i.tenant_id = any (p_tenants) and i.state = 'open' and i.kind = 'conflict'
       and (v_namespaces is null or i.namespace_id = any (v_namespaces))
    union all
    select f.metric, f.value from memdb._model_figures(p_tenants, v_namespaces) f
    union all
    select f.metric, f.value from memdb._writing_figures(p_tenants, v_namespaces) f
    union all
    select f.metric, f.value from memdb._life_figures(p_tenants, v_namespaces) f
    union all
    select f.metric, f.value from memdb._recall_figures(p_tenants) f
    union all
    select 'summaries_waiting', count(*) from memdb.summary s
     where s.tenant_id = any (p_tenants) and s.due_at <= memdb.current_time()
       and (v_namespaces is null or s.namespace_id = any (v_namespaces))
    union all
    select 'recall_p50', percentile_cont(0.5) within group (order by l.elapsed_ms) from latest l
    union all
    select 'recall_p95', percentile_cont(0.95) within group (order by l.elapsed_ms) from latest l
    union all
    select 'recall_cache_hits', 100 * avg(case when l.is_cached then 1 else 0 end) from latest l where memdb._cache_is_on()
    union all
    select 'expansion_cache_hits', 100 * avg(l.is_kept::integer) from latest l where memdb._cache_is_on()
    union all
    select 'recall_hit_rate', 100 * avg(case when l.used_ids = '{}' then 0 else 1 end) from latest l where l.used_ids is not null;
end $$;
comment on function memdb._health_values (integer[]) is 'The figures behind health for some tenants, within what the caller may see of them.';

-- _health_rules: from which value on a figure is a warning or bad, its unit and the remedy.
--
-- A null threshold is never reached; is_low: too little is what is bad. A remedy names the likely cause first, then the cure.
create or replace function memdb._health_rules ()
  returns table (place integer, metric text, unit text, warn_from double precision, bad_from double precision, remedy text, is_low boolean)
  language sql immutable parallel safe rows 20
begin atomic
  select r.place, r.metric, r.unit, r.warn_from::double precision, r.bad_from::double precision, r.remedy, r.metric = 'recall_hit_rate'
    from (values
      (1, 'events', 'rows', null, null, 'Nothing to do: this is what everything rests on.'),
      (2, 'memories_active', 'rows', null, null, 'Nothing to do: recall finds these.'),
      (3, 'memories_stale', 'rows', 1, null, 'A support fell: look at them with explain_memory, then record or retract them.'),
      (4, 'memories_contradicted', 'rows', 1, null, 'Decide which side holds; recall leaves them out until then.'),
      (5, 'memories_superseded', 'rows', null, null, 'Nothing to do: newer memories took their place.'),
      (6, 'memories_retracted', 'rows', null, null, 'Nothing to do: they are kept for questions about the past.'),
      (7, 'events_waiting', 'rows', 10000, 100000, 'Start a worker, or more of them: events come in faster than they are extracted.'),
      (8, 'events_failed', 'rows', 1, 1000, 'Read failed_events, mend the cause, then call retry_events.'),
      (9, 'oldest_wait', 'seconds', 600, 86400, 'Check that a worker runs and that its model answers.'),
      (10, 'vectors_waiting', 'rows', 10000, 100000, 'Encode them: pending_embeddings hands them out; until then keywords find them.'),
      (11, 'vectors_failed', 'rows', 1, 1000, 'Read the error in embedding_queue, then call enqueue_embeddings for another try.'),
      (12, 'keyword_queue', 'rows', 10000, 100000, 'Call fold_keyword_stats until it returns 0, and schedule it.'),
      (13, 'conflicts', 'rows', 1, 100, 'Two memories cannot both be true: read review_item, and decide which one holds.'),
      (14, 'model_tokens', 'tokens', null, null, 'Nothing to do: what models took since midnight UTC; see model_spend.'),
      (15, 'model_failures', '%', 10, 50, 'Read error in model_call: the endpoint does not answer, or the model does not keep to the schema.'),
      (16, 'model_budget', '%', 80, 100, 'Events wait until midnight UTC: raise policy model_budget_tokens_per_day, or see model_spend.'),
      (17, 'summaries_waiting', 'rows', 100, 10000, 'Start a worker: due_summaries hands out what record_summary is to write.'),
      (18, 'recall_p50', 'ms', 100, 1000, 'Vacuum and analyze memdb''s tables, raise shared_buffers, or ask in fewer namespaces.'),
      (19, 'recall_p95', 'ms', 300, 3000, 'Vacuum and analyze memdb''s tables, raise shared_buffers, or ask in fewer namespaces.'),
      (20, 'slow_recalls', '%', 5, 50, 'More than one recall in twenty takes over 200 ms: see which leg does below, name namespaces, or give p_budget_ms.'),
      (21, 'leg_keyword_p95', 'ms', 100, 1000, 'Common words in a large scope: run fold_keyword_stats, vacuum memory_version, name namespaces.'),
      (22, 'leg_vector_p95', 'ms', 100, 1000, 'Every vector of the scope is measured: build what vector_index_plan lists (memdb models index).'),
      (23, 'leg_neighbour_p95', 'ms', 100, 1000, 'Long sessions around the hits: vacuum memory, or leave the leg out.'),
      (24, 'leg_graph_p95', 'ms', 100, 1000, 'Memories with many ties: ask for fewer hops.'),
      (25, 'leg_fresh_p95', 'ms', 100, 1000, 'Many events are not extracted yet: start a worker.'),
      (26, 'recall_hit_rate', '%', 30, 10, 'Irrelevant results: of the recalls marked by mark_used too few were of use. Read explain_recall for one of them; check the encoder, name user and namespace.'),
      (26, 'recall_cache_hits', '%', null, null, 'Share of recalls answered from the cache; where it stays low, switch_recall_cache(false) spares writers its cost.'),
      (26, 'expansion_cache_hits', '%', null, null, 'Share of recalls with reasons whose chains came from the cache.'),
      (27, 'golden_missing', 'rows', 1, null, 'A known question does not find its memory any more: read explain_recall, then what changed (archived, superseded, encoder).'),
      (28, 'writes_per_turn', '%', 20, null, 'More than one turn in five becomes a memory, so cost grows with all that is said: raise policy importance_thresholds, or leave kinds out of memory_kinds.'),
      (29, 'duplicate_share', '%', 15, null, 'Memories say the same in other words and crowd recall: lower policy duplicate_similarity, or merge them.'),
      (30, 'memories_working', 'rows', null, null, 'Nothing to do: these live for days.'),
      (31, 'memories_short_term', 'rows', null, null, 'Nothing to do: these live for weeks unless used.'),
      (32, 'memories_long_term', 'rows', null, null, 'Nothing to do; where it only grows, shorten policy half_life_days.'),
      (33, 'memories_archive', 'rows', null, null, 'Nothing to do: found with p_include archive only. What is missed there: restore_archived, then pin_memory.'),
      (34, 'uses_waiting', 'rows', 100000, 1000000, 'Uses are not counted: nobody runs the jobs. Start a worker, schedule_cron, or memdb jobs run.'),
      (35, 'fading_late', 'seconds', 14400, 172800, 'What has faded is not archived, so that recall and indexes grow: nobody runs the jobs, or fade fails. See list_jobs.'),
      (36, 'jobs_late', 'rows', 1, null, 'Nobody runs the jobs, or only a worker that is no operator (check, vacuum, vector_index and forgetting need one): schedule_cron, or memdb jobs run.'),
      (37, 'jobs_failing', 'rows', 1, null, 'A job stops with an error: list_jobs shows which and why; it is tried again by itself.'),
      (38, 'check_differences', 'rows', 1, null, 'Memories may be lost to recall: run check_consistency with p_repair, and read what it found.'),
      (39, 'tenants', 'rows', null, null, 'Nothing to do.'),
      (40, 'database_size', 'bytes', null, null, 'Watch it against the disk; archiving and forgetting give space back.'),
      (41, 'dead_rows', '%', 20, 50, 'Bloat: autovacuum does not keep up, often because a transaction is open for long. End it, then vacuum.'),
      (42, 'lens_drift', 'rows', 1, null, 'The graph for Cypher differs from the tables: check_consistency with p_repair, or rebuild_graph.'),
      (43, 'test_clock', 'switch', 1, 1, 'Never in production: delete the row test_clock from memdb.schema_info.'))
      r (place, metric, unit, warn_from, bad_from, remedy);
end;
comment on function memdb._health_rules () is 'From which value on a figure is a warning or bad, its unit and the remedy.';

-- health: figures that tell whether memdb keeps up, each judged, with what to do about it.
--
-- p_tenant null = all the caller may see, and for operators also figures of the whole database.
-- A caller bound to some namespaces gets the figures of those (recall times and hit rate are the tenant's,
-- over the last 1,000 recalls; null where none was logged). state is ok, warn or bad.
-- Raises MD301, MD101. Cost: two index-only scans and the queues, see _health_values.
create or replace function memdb.health (p_tenant integer default null)
  returns table (metric text, value double precision, unit text, state text, remedy text)
  language sql stable rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select r.metric, v.value, r.unit,
         case when case when r.is_low then v.value < r.bad_from else v.value >= r.bad_from end then 'bad'
              when case when r.is_low then v.value < r.warn_from else v.value >= r.warn_from end then 'warn' else 'ok' end, r.remedy
    from (select h.metric, h.value
            from memdb._health_values(
                   case when p_tenant is null then array(select t.tenant_id from memdb.tenant t) else array[p_tenant] end) h
          union all
          select d.metric, d.value
            from memdb._database_figures() d
           where p_tenant is null and memdb._is_operator()) v
    join memdb._health_rules() r on r.metric = v.metric
   order by r.place;
$$;
comment on function memdb.health (integer) is 'Figures that tell whether memdb keeps up, each judged, with what to do about it.';
