-- Health: a few figures that tell whether memdb keeps up, each with what to do about it.

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
      select r.elapsed_ms, r.used_ids
        from unnest(p_tenants) t (tenant_id)
        cross join lateral (select l.elapsed_ms, l.recorded_at, l.used_ids from memdb.recall l
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
    select 'summaries_waiting', count(*) from memdb.summary s
     where s.tenant_id = any (p_tenants) and s.due_at <= memdb.current_time()
       and (v_namespaces is null or s.namespace_id = any (v_namespaces))
    union all
    select 'recall_p50', percentile_cont(0.5) within group (order by l.elapsed_ms) from latest l
    union all
    select 'recall_p95', percentile_cont(0.95) within group (order by l.elapsed_ms) from latest l
    union all
    select 'recall_hit_rate', 100 * avg(case when l.used_ids = '{}' then 0 else 1 end) from latest l where l.used_ids is not null;
end $$;
comment on function memdb._health_values (integer[]) is 'The figures behind health for some tenants, within what the caller may see of them.';

-- _health_rules: from which value on a figure is a warning or bad, its unit and the remedy.
--
-- A null threshold is never reached.
create or replace function memdb._health_rules ()
  returns table (place integer, metric text, unit text, warn_from double precision, bad_from double precision, remedy text)
  language sql immutable parallel safe rows 20
begin atomic
  select r.place, r.metric, r.unit, r.warn_from::double precision, r.bad_from::double precision, r.remedy
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
      (20, 'recall_hit_rate', '%', null, null, 'Share of the recalls marked by mark_used that were of use; where it is low, read explain_recall.'),
      (21, 'tenants', 'rows', null, null, 'Nothing to do.'),
      (22, 'database_size', 'bytes', null, null, 'Watch it against the disk; archiving and forgetting give space back.'),
      (23, 'test_clock', 'switch', 1, 1, 'Never in production: delete the row test_clock from memdb.schema_info.'))
      r (place, metric, unit, warn_from, bad_from, remedy);
end;
comment on function memdb._health_rules () is 'From which value on a figure is a warning or bad, its unit and the remedy.';

-- health: figures that tell whether memdb keeps up, each judged, with what to do about it.
--
-- p_tenant null = all the caller may see, and for operators three figures of the whole database.
-- A caller bound to some namespaces gets the figures of those (recall times and hit rate are the tenant's,
-- over the last 1,000 recalls; null where none was logged). state is ok, warn or bad.
-- Raises MD301, MD101. Cost: two index-only scans and the queues, see _health_values.
create or replace function memdb.health (p_tenant integer default null)
  returns table (metric text, value double precision, unit text, state text, remedy text)
  language sql stable rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select r.metric, v.value, r.unit,
         case when v.value >= r.bad_from then 'bad' when v.value >= r.warn_from then 'warn' else 'ok' end, r.remedy
    from (select h.metric, h.value
            from memdb._health_values(
                   case when p_tenant is null then array(select t.tenant_id from memdb.tenant t) else array[p_tenant] end) h
          union all
          select d.metric, d.value
            from (values ('tenants', (select count(*) from memdb.tenant)),
                         ('database_size', pg_database_size(current_database())),
                         ('test_clock', (select count(*) from memdb.schema_info s
                                          where s.key = 'test_clock' and s.value = 'on'))) d (metric, value)
           where p_tenant is null and memdb._is_operator()) v
    join memdb._health_rules() r on r.metric = v.metric
   order by r.place;
$$;
comment on function memdb.health (integer) is 'Figures that tell whether memdb keeps up, each judged, with what to do about it.';
