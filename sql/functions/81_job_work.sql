-- What some jobs do that nothing else does, golden queries, and pg_cron.

-- _purge_logs: delete what the logs of recalls and of jobs keep no longer, one bounded step; returns 1 where there may be more.
--
-- Ids grow with time, so the oldest come first and the search ends at the first that is kept.
create or replace function memdb._purge_logs (p_tenant integer, p_limit integer)
  returns integer
  language plpgsql volatile
as $$
declare
  v_now    timestamptz := memdb.current_time();
  v_days   double precision := memdb._policy(p_tenant, 'keep_recalls_days')::double precision;
  v_oldest bigint[];
  v_gone   bigint;
begin
  if v_days > 0 then
    v_oldest := array(select r.recall_id from memdb.recall r where r.tenant_id = p_tenant order by r.recall_id limit p_limit);
    delete from memdb.recall r
     where r.tenant_id = p_tenant and r.recall_id = any (v_oldest) and r.recorded_at < v_now - v_days * interval '1 day';
    get diagnostics v_gone = row_count;
    if v_gone = p_limit then
      return 1;
    end if;
  end if;
  v_days := memdb._policy(p_tenant, 'keep_runs_days')::double precision;
  if v_days > 0 then
    v_oldest := array(select r.run_id from memdb.job_run r where r.tenant_id = p_tenant order by r.run_id limit p_limit);
    delete from memdb.job_run r
     where r.tenant_id = p_tenant and r.run_id = any (v_oldest) and r.finished_at < v_now - v_days * interval '1 day';
    get diagnostics v_gone = row_count;
    return (v_gone = p_limit)::integer;
  end if;
  return 0;
end $$;
comment on function memdb._purge_logs (integer, integer) is 'Delete what the logs of recalls and of jobs keep no longer, one bounded step; returns 1 where there may be more.';

-- _retry_failed: give events and vectors that failed for good another try; returns 0.
create or replace function memdb._retry_failed (p_tenant integer)
  returns integer
  language plpgsql volatile
as $$
begin
  perform memdb.retry_events(p_tenant);
  update memdb.embedding_queue q set attempts = 0, leased_until = null, error = null
   where q.tenant_id = p_tenant and q.attempts >= memdb._max_attempts();
  return 0;
end $$;
comment on function memdb._retry_failed (integer) is 'Give events and vectors that failed for good another try; returns 0.';

-- set_golden_query: note which memories a question must find, for a job to ask it every day.
--
-- p_memory_ids: 1 to 100 memories that must be among the first p_k; null takes the question back. The job asks by words alone (a
-- vector would take a model) and health warns where an answer is not found. Returns the id, null where it was taken
-- back. Raises MD001, MD102, MD103, MD301, MD302.
create or replace function memdb.set_golden_query (
  p_tenant     integer,
  p_query      text,
  p_memory_ids bigint[],
  p_namespace  text    default 'default',
  p_k          integer default 10
)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_space integer;
  v_id    bigint;
begin
  perform memdb._authorize(p_tenant, true);
  v_space := memdb._writable(p_tenant, p_namespace, null);
  if p_memory_ids is null then
    delete from memdb.golden_query g where g.tenant_id = p_tenant and g.namespace_id = v_space and g.query = p_query;
    return null;
  end if;
  if not coalesce(p_query collate pg_catalog.pg_c_utf8 ~ '\S' and char_length(p_query) <= 8000, false) or not coalesce(p_k between 1 and 1000, false)
     or cardinality(p_memory_ids) not between 1 and 100 then
    perform memdb._raise('MD001', 'a golden query has a question and 1 to 100 memories', jsonb_build_object('field', 'query'),
      'query has up to 8,000 characters, k is 1 to 1,000; memory_ids null takes it back.');
  end if;
  if exists (select from unnest(p_memory_ids) i (id)
              where not exists (select from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = i.id and m.namespace_id = v_space)) then
    perform memdb._raise('MD103', 'no such memory in this namespace', jsonb_build_object('field', 'memory_ids'), 'Check the ids.');
  end if;
  insert into memdb.golden_query as g (tenant_id, namespace_id, query, memory_ids, k) values (p_tenant, v_space, p_query, p_memory_ids, p_k)
    on conflict on constraint golden_query_query_key
    do update set memory_ids = excluded.memory_ids, k = excluded.k, found = null, asked_at = null
    returning g.golden_id into v_id;
  return v_id;
end $$;
comment on function memdb.set_golden_query (integer, text, bigint[], text, integer) is 'Note which memories a question must find, for a job to ask it every day.';

-- _ask_golden: ask the golden queries that were not asked for an hour, a bounded number; note says which find too little.
--
-- Those of namespaces the caller may read: it asks with the caller's rights.
create or replace function memdb._ask_golden (p_tenant integer, p_limit integer)
  returns table (remaining bigint, note text)
  language plpgsql volatile rows 1
as $$
declare
  v_now        timestamptz := memdb.current_time();
  v_namespaces integer[] := memdb._namespaces_granted(p_tenant, false);
  v_query      record;
begin
  for v_query in
    select g.golden_id, g.query, g.memory_ids, g.k, n.path
      from memdb.golden_query g
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = g.namespace_id
     where g.tenant_id = p_tenant and (g.asked_at is null or g.asked_at <= v_now - interval '1 hour')
       and (v_namespaces is null or g.namespace_id = any (v_namespaces))
     order by g.asked_at nulls first, g.golden_id limit p_limit
  loop
    update memdb.golden_query g
       set asked_at = v_now,
           found = (select count(distinct r.memory_id)
                      from memdb.recall(p_tenant, v_query.query, p_namespaces => array[v_query.path], p_k => v_query.k, p_log => false) r
                     where r.memory_id = any (v_query.memory_ids))
     where g.tenant_id = p_tenant and g.golden_id = v_query.golden_id;
  end loop;
  return query
    select count(*) filter (where g.asked_at is null or g.asked_at <= v_now - interval '1 hour'),
           case when count(*) filter (where g.found < cardinality(g.memory_ids)) > 0 then
             format('%s golden queries do not find all of their memories: %s',
                    count(*) filter (where g.found < cardinality(g.memory_ids)),
                    string_agg(left(g.query, 80), '; ' order by g.golden_id) filter (where g.found < cardinality(g.memory_ids))) end
      from memdb.golden_query g
     where g.tenant_id = p_tenant and (v_namespaces is null or g.namespace_id = any (v_namespaces));
end $$;
comment on function memdb._ask_golden (integer, integer) is 'Ask the golden queries that were not asked for an hour, a bounded number; note says which find too little.';

-- vacuum_plan: the tables that are to be vacuumed now, and the statements that do it.
--
-- Those of which a fifth is dead rows (of 1,000 or more), and where something was forgotten since their last vacuum, each with a dead row:
-- what was deleted is in the files until then. Statements cannot run inside a transaction; `memdb jobs run` and workers
-- run them as the job vacuum. Operators only (MD303). Cost: reads statistics.
create or replace function memdb.vacuum_plan ()
  returns table (name text, dead_rows bigint, is_after_forgetting boolean, statement text)
  language plpgsql stable security definer rows 5
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  return query
    select t.name, t.dead_rows, t.is_after, format('vacuum (analyze) memdb.%I', t.name)
      from (select s.relname::text as name, s.n_dead_tup as dead_rows, s.n_live_tup as live_rows,
                   s.n_dead_tup > 0 and exists (select from memdb.erasure_receipt r
                                                 where r.finished_at > coalesce(greatest(s.last_vacuum, s.last_autovacuum), '-infinity')) as is_after
              from pg_stat_user_tables s where s.schemaname = 'memdb') t
     where t.is_after or (t.dead_rows >= 1000 and t.dead_rows * 4 >= t.live_rows)
     order by t.dead_rows desc, t.name;
end $$;
comment on function memdb.vacuum_plan () is 'The tables that are to be vacuumed now, and the statements that do it.';

-- work_off_jobs: call run_due_jobs until nothing is due or so many seconds are over, each batch in a transaction of its own.
--
-- For pg_cron, and for psql; operators only. A procedure, because a function cannot commit, and for the same reason
-- with the caller's rights and no setting of its own: it does nothing but call.
create or replace procedure memdb.work_off_jobs (p_seconds integer default 50)
  language plpgsql
as $$
declare
  v_end timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
begin
  loop
    perform from memdb.run_due_jobs(null, 'pg_cron');
    exit when not found or clock_timestamp() >= v_end;
    commit;
  end loop;
end $$;
comment on procedure memdb.work_off_jobs (integer) is 'Call run_due_jobs until nothing is due or so many seconds are over, each batch in a transaction of its own.';

-- schedule_cron: let pg_cron run the jobs of all tenants, every minute, and purge its own log of that.
--
-- Needs pg_cron in this database. The entries are the caller's, who must be an operator, and run with its rights; calling
-- again changes nothing. Workers may go on beside it. Raises MD303, MD401.
create or replace function memdb.schedule_cron ()
  returns void
  language plpgsql volatile
as $$
begin
  perform memdb._require_operator();
  if to_regprocedure('cron.schedule(text,text,text)') is null then
    perform memdb._raise('MD401', 'pg_cron is not installed in this database', null,
      'create extension pg_cron; (shared_preload_libraries = pg_cron, cron.database_name = this database), or let a worker run the jobs.');
  end if;
  perform cron.schedule('memdb jobs', '* * * * *', 'call memdb.work_off_jobs(50)');
  perform cron.schedule('memdb purge', '37 3 * * *',
    $sql$delete from cron.job_run_details d using cron.job j
 where j.jobid = d.jobid and j.jobname like 'memdb %' and d.end_time < now() - interval '7 days'$sql$);
end $$;
comment on function memdb.schedule_cron () is 'Let pg_cron run the jobs of all tenants, every minute, and purge its own log of that.';

-- unschedule_cron: take memdb's entries out of pg_cron.
--
-- Only those of the caller. Raises MD303, MD401.
create or replace function memdb.unschedule_cron ()
  returns void
  language plpgsql volatile
as $$
begin
  perform memdb._require_operator();
  if to_regprocedure('cron.unschedule(bigint)') is null then
    perform memdb._raise('MD401', 'pg_cron is not installed in this database', null, 'There is nothing to take out.');
  end if;
  perform cron.unschedule(j.jobid) from cron.job j where j.jobname in ('memdb jobs', 'memdb purge');
end $$;
comment on function memdb.unschedule_cron () is 'Take memdb''s entries out of pg_cron.';
