-- Jobs: what is done regularly for every tenant, in bounded batches, by whoever calls.
--
-- A function cannot commit. So run_due_jobs does one batch of one job and returns; pg_cron, a worker or
-- `memdb jobs run` calls it again. The lock on the job's row, taken with `skip locked`, lets nobody else
-- work on that job meanwhile; killed in the middle, the batch is rolled back with its notes, and the next call
-- does it. Work that cannot be done inside a transaction (an index built while others write) is claimed with a
-- lease in the same row.

-- _job_kinds: every job there can be: when it runs by default, how much a batch of it does, and what for.
--
-- is_inside: done by run_due_jobs; else by a worker that claims it. needs_operator: only an operator's call does
-- it. To add a job: a row here, a line in _run_job, or a worker's function (memdb/jobs.py).
create or replace function memdb._job_kinds ()
  returns table (name text, every_seconds integer, daily_at text, batch integer, needs_operator boolean, is_inside boolean, meaning text)
  language sql immutable parallel safe rows 15
begin atomic
  values
    ('fold_uses', 60, null::text, 5000, false, true, 'Counts uses, promotes memories by them, sees what lost its ties.'),
    ('fold_keywords', 60, null, 5000, false, true, 'Moves new words into the statistics of the keyword search; after an upgrade that cuts words by other rules, writes them anew.'),
    ('fade', 3600, null, 5000, false, true, 'Archives what has faded or expired; works through changes of policy.'),
    ('refresh_topics', 600, null, 500, false, true, 'Puts new memories into topics.'),
    ('trim_recall_cache', 600, null, 10000, false, true, 'Forgets kept answers of recall that no longer hold.'),
    ('refresh_profiles', 3600, null, 100, false, true, 'Writes user profiles anew where their memories changed.'),
    ('retention', 3600, null, 500, true, true, 'Forgets what policies of retention keep no longer.'),
    ('continue_forgetting', 60, null, 1000, true, true, 'Goes on with forgetting that was begun.'),
    ('purge_logs', null, '03:10', 5000, false, true, 'Deletes recalls and runs of jobs that are older than their policies keep.'),
    ('retry_failed', null, '04:10', 1000, false, true, 'Gives events and vectors that failed for good another try.'),
    ('golden_queries', null, '05:10', 20, false, true, 'Asks the questions whose answers are known, and warns where one is not found.'),
    ('check', 604800, null, 1, true, true, 'Compares all that is derived with what it is derived from, and warns of differences.'),
    ('vacuum', null, '04:40', 1, true, false, 'Vacuums tables from which much was deleted, and all of them after forgetting: deleted rows are then gone from the files.'),
    ('vector_index', 21600, null, 1, true, false, 'Builds and drops nearest-neighbour indexes as vector_index_plan says.');
end;
comment on function memdb._job_kinds () is 'Every job there can be: when it runs by default, how much a batch of it does, and what for.';

-- _next_run: when a job runs next after a moment: so many seconds later, or at the next time of day in a time zone.
create or replace function memdb._next_run (p_every_seconds integer, p_daily_at text, p_time_zone text, p_after timestamptz)
  returns timestamptz
  language sql stable
begin atomic
  select case when p_every_seconds is not null then p_after + make_interval(secs => p_every_seconds)
              else (select min(t.at) from (select ((p_after at time zone p_time_zone)::date + d + p_daily_at::time) at time zone p_time_zone
                                             from generate_series(0, 2) d) t (at)
                     where t.at > p_after) end;
end;
comment on function memdb._next_run (integer, text, text, timestamptz) is 'When a job runs next after a moment: so many seconds later, or at the next time of day in a time zone.';

-- _ensure_jobs: give tenants the jobs they do not have yet, by default; null means all tenants.
create or replace function memdb._ensure_jobs (p_tenant integer, p_now timestamptz)
  returns void
  language sql volatile
begin atomic
  -- What is done outside is not cut into batches: its lease has to last.
  insert into memdb.job (tenant_id, name, every_seconds, daily_at, timeout_seconds, next_at)
    select t.tenant_id, k.name, k.every_seconds, k.daily_at, case when k.is_inside then 300 else 21600 end, memdb._next_run(k.every_seconds, k.daily_at, 'UTC', p_now)
      from memdb.tenant t
      cross join memdb._job_kinds() k
     where (p_tenant is null or t.tenant_id = p_tenant)
       and not exists (select from memdb.job j where j.tenant_id = t.tenant_id and j.name = k.name)
     order by t.tenant_id, k.name
  on conflict do nothing;
end;
comment on function memdb._ensure_jobs (integer, timestamptz) is 'Give tenants the jobs they do not have yet, by default; null means all tenants.';

-- schedule_job: say when a job of a tenant runs, or switch it off.
--
-- p_name is one of list_jobs: jobs are functions of memdb's, nobody's SQL is run. Either p_every_seconds (1 to 31,536,000) or p_daily_at
-- ("03:30", in p_time_zone); neither is memdb's own schedule. p_timeout_seconds: work a run may take before it
-- stops until the next one. Returns when it runs next. Operators only (MD303). Raises MD001, MD006, MD101.
create or replace function memdb.schedule_job (
  p_tenant          integer,
  p_name            text,
  p_every_seconds   integer default null,
  p_daily_at        text    default null,
  p_time_zone       text    default 'UTC',
  p_timeout_seconds integer default 300,
  p_is_enabled      boolean default true
)
  returns timestamptz
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now  timestamptz;
  v_kind record;
  v_next timestamptz;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  v_now := memdb.current_time();
  select k.* into v_kind from memdb._job_kinds() k where k.name = p_name;
  if not found then
    perform memdb._raise('MD001', 'no such job', jsonb_build_object('field', 'name', 'name', left(p_name, 200)),
      'Jobs are ' || (select string_agg(k.name, ', ' order by k.name) from memdb._job_kinds() k) || '.');
  end if;
  if (p_every_seconds is not null and p_daily_at is not null) or not (coalesce(p_every_seconds, 1) between 1 and 31536000)
     or not coalesce(p_timeout_seconds between 1 and 86400, false) or p_is_enabled is null or p_time_zone is null then
    perform memdb._raise('MD001', 'a job runs every so many seconds or daily at a time', jsonb_build_object('field', 'every_seconds'),
      'every_seconds is 1 to 31,536,000 and goes without daily_at; timeout_seconds is 1 to 86,400.');
  end if;
  if p_every_seconds is not null or p_daily_at is not null then
    v_kind.every_seconds := p_every_seconds;
    v_kind.daily_at := to_char(p_daily_at::time, 'HH24:MI');
  end if;
  v_next := memdb._next_run(v_kind.every_seconds, v_kind.daily_at, p_time_zone, v_now);
  insert into memdb.job as j (tenant_id, name, every_seconds, daily_at, time_zone, timeout_seconds, is_enabled, next_at)
    values (p_tenant, p_name, v_kind.every_seconds, v_kind.daily_at, p_time_zone, p_timeout_seconds, p_is_enabled, v_next)
    on conflict on constraint job_pkey
    do update set every_seconds = excluded.every_seconds, daily_at = excluded.daily_at, time_zone = excluded.time_zone,
                  timeout_seconds = excluded.timeout_seconds, is_enabled = excluded.is_enabled, next_at = excluded.next_at;
  return v_next;
exception when invalid_parameter_value or invalid_datetime_format or datetime_field_overflow then
  perform memdb._raise('MD006', 'no such time of day or time zone', jsonb_build_object('field', 'daily_at'),
    'Give a time as 03:30 and a zone of the IANA list, such as Asia/Shanghai.');
end $$;
comment on function memdb.schedule_job (integer, text, integer, text, text, integer, boolean) is 'Say when a job of a tenant runs, or switch it off.';

-- list_jobs: the jobs of a tenant: when they run, and how the last run went.
--
-- last_outcome is running (not finished: the next call goes on with it), done, warned, failed or timed_out; note says why. Operators
-- only (MD303). Raises MD101.
create or replace function memdb.list_jobs (p_tenant integer)
  returns table (name text, meaning text, every_seconds integer, daily_at text, time_zone text, is_enabled boolean,
                 next_at timestamptz, failures integer, last_started_at timestamptz, last_outcome text, last_batches integer,
                 last_remaining bigint, last_elapsed_ms real, note text)
  language plpgsql volatile security definer rows 15
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._ensure_jobs(p_tenant, memdb.current_time());
  return query
    select j.name, k.meaning, j.every_seconds, j.daily_at, j.time_zone, j.is_enabled, j.next_at,
           j.failures::integer, r.started_at, r.outcome, r.batches, r.remaining, r.elapsed_ms, r.error
      from memdb.job j
      join memdb._job_kinds() k on k.name = j.name
      left join lateral (select l.* from memdb.job_run l where l.tenant_id = p_tenant and l.name = j.name
                          order by l.run_id desc limit 1) r on true
     where j.tenant_id = p_tenant
     order by j.name;
end $$;
comment on function memdb.list_jobs (integer) is 'The jobs of a tenant: when they run, and how the last run went.';

-- _run_job: do one batch of a job; remaining is what is still to be done, note what a person should know.
--
-- The whole list of what a name can mean.
create or replace function memdb._run_job (
  p_tenant      integer,
  p_name        text,
  p_limit       integer,
  out remaining bigint,
  out note      text
)
  language plpgsql volatile
as $$
begin
  remaining := 0;
  case p_name
    when 'fold_uses' then remaining := memdb.fold_uses(p_tenant, p_limit);
    when 'fold_keywords' then
      remaining := memdb._renew_keywords(p_tenant, least(p_limit, 1000)) + memdb.fold_keyword_stats(p_tenant, p_limit);
    when 'fade' then remaining := memdb.fade_due(p_tenant, p_limit);
    when 'refresh_topics' then remaining := memdb.refresh_topics(p_tenant, p_limit);
    when 'trim_recall_cache' then remaining := memdb.trim_recall_cache(p_tenant, p_limit);
    when 'refresh_profiles' then remaining := memdb.refresh_profiles(p_tenant, p_limit);
    when 'retention' then remaining := memdb.apply_retention(p_tenant, p_limit);
    when 'continue_forgetting' then remaining := memdb.continue_erasures(p_tenant, p_limit);
    when 'purge_logs' then remaining := memdb._purge_logs(p_tenant, p_limit);
    when 'retry_failed' then remaining := memdb._retry_failed(p_tenant);
    when 'golden_queries' then
      select g.remaining, g.note into remaining, note from memdb._ask_golden(p_tenant, p_limit) g;
    when 'check' then
      select c.remaining, c.note into remaining, note from memdb._check_next(p_tenant) c;
  end case;
end $$;
comment on function memdb._run_job (integer, text, integer) is 'Do one batch of a job; remaining is what is still to be done, note what a person should know.';

-- _due_job: lock the job that has been due longest and nobody is at; null where there is none.
create or replace function memdb._due_job (p_tenant integer, p_is_inside boolean, p_name text, p_now timestamptz)
  returns memdb.job
  language sql volatile
begin atomic
  select j
    from memdb.job j
    join memdb._job_kinds() k on k.name = j.name
   where j.is_enabled and j.next_at <= p_now and (j.leased_until is null or j.leased_until <= p_now)
     and (p_tenant is null or j.tenant_id = p_tenant) and (p_name is null or j.name = p_name)
     and k.is_inside = p_is_inside and (not k.needs_operator or memdb._is_operator())
   order by j.next_at, j.tenant_id, j.name
   limit 1
     for no key update of j skip locked;
end;
comment on function memdb._due_job (integer, boolean, text, timestamptz) is 'Lock the job that has been due longest and nobody is at; null where there is none.';

-- _begin_run: open the run of a locked job, or find the one that is open; returns its id.
create or replace function memdb._begin_run (p_job memdb.job, p_worker text, p_now timestamptz)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_run bigint := p_job.run_id;
begin
  if v_run is null then
    insert into memdb.job_run as r (tenant_id, name, started_at, worker) values (p_job.tenant_id, p_job.name, p_now, left(p_worker, 200))
      returning r.run_id into v_run;
  end if;
  return v_run;
end $$;
comment on function memdb._begin_run (memdb.job, text, timestamptz) is 'Open the run of a locked job, or find the one that is open; returns its id.';

-- _note_batch: write down what a batch of a locked job did, close its run where nothing is left, and say when it is due again.
--
-- p_error: what stopped it; the pause until the next try doubles from a minute to an hour. Returns the
-- outcome. A quiet run of a frequent job takes the place of the one before it, so that the log holds what matters.
create or replace function memdb._note_batch (
  p_job       memdb.job,
  p_run       bigint,
  p_remaining bigint,
  p_note      text,
  p_error     text,
  p_ms        real,
  p_now       timestamptz
)
  returns text
  language plpgsql volatile
as $$
declare
  v_outcome text;
begin
  select case when p_error is not null then 'failed'
              when p_remaining > 0 and r.elapsed_ms + p_ms >= 1000.0 * p_job.timeout_seconds then 'timed_out'
              when p_remaining > 0 then 'running'
              when coalesce(p_note, r.error) is not null then 'warned' else 'done' end
    into v_outcome
    from memdb.job_run r
   where r.tenant_id = p_job.tenant_id and r.run_id = p_run;
  update memdb.job_run r
     set batches = r.batches + 1, remaining = coalesce(p_remaining, r.remaining), elapsed_ms = r.elapsed_ms + p_ms,
         error = left(coalesce(p_error, p_note, r.error), 2000), outcome = v_outcome,
         finished_at = case when v_outcome <> 'running' then p_now end
   where r.tenant_id = p_job.tenant_id and r.run_id = p_run;
  update memdb.job j
     set run_id = case when v_outcome = 'running' then p_run end, leased_until = null, worker = null,
         failures = case v_outcome when 'failed' then least(j.failures + 1, 100) else 0 end,
         next_at = case v_outcome
           -- Behind the others that are due, so that a long one does not keep them waiting.
           when 'running' then p_now
           when 'failed' then p_now + make_interval(secs => least(3600, 60 * 2 ^ least(j.failures, 6)))
           else memdb._next_run(j.every_seconds, j.daily_at, j.time_zone, p_now) end
   where j.tenant_id = p_job.tenant_id and j.name = p_job.name;
  if v_outcome = 'done' and p_job.every_seconds < 3600 then
    delete from memdb.job_run r
     where r.tenant_id = p_job.tenant_id and r.run_id = (
             select l.run_id from memdb.job_run l where l.tenant_id = p_job.tenant_id and l.name = p_job.name and l.run_id < p_run
              order by l.run_id desc limit 1)
       and r.outcome = 'done' and r.batches = 1;
  end if;
  return v_outcome;
end $$;
comment on function memdb._note_batch (memdb.job, bigint, bigint, text, text, real, timestamptz) is 'Write down what a batch of a locked job did, close its run where nothing is left, and say when it is due again.';

-- run_due_jobs: do one bounded batch of the job that has been due longest.
--
-- p_tenant null: of any tenant (operators only, MD303). Returns one row about it, none where nothing is due: call again until
-- then. outcome: running (there is more: it is due again at once), done, warned, timed_out (the rest waits for
-- the next run), failed (it is tried again); note says why, to callers who see the whole tenant. A batch that fails is undone alone. Jobs only an operator may do are
-- left to operators. Any number may call at once: each job is done by one. Raises MD301.
create or replace function memdb.run_due_jobs (p_tenant integer default null, p_worker text default null)
  returns table (tenant_id integer, name text, outcome text, remaining bigint, elapsed_ms real, note text)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now    timestamptz;
  v_began  timestamptz := clock_timestamp();
  v_job    memdb.job;
  v_run    bigint;
  v_error  text;
  v_state  text;
begin
  if p_tenant is null then
    perform memdb._require_operator();
  else
    perform memdb._authorize(p_tenant, true);
  end if;
  v_now := memdb.current_time();
  perform memdb._ensure_jobs(p_tenant, v_now);
  v_job := memdb._due_job(p_tenant, true, null, v_now);
  if v_job.name is null then
    return;
  end if;
  v_run := memdb._begin_run(v_job, p_worker, v_now);
  begin
    select d.remaining, d.note into remaining, note
      from memdb._job_kinds() k cross join lateral memdb._run_job(v_job.tenant_id, v_job.name, k.batch) d
     where k.name = v_job.name;
  exception when others then
    get stacked diagnostics v_state = returned_sqlstate, v_error = message_text;
    v_error := v_state || ': ' || v_error;
    remaining := null;
    note := v_error;
  end;
  elapsed_ms := extract(epoch from clock_timestamp() - v_began) * 1000;
  tenant_id := v_job.tenant_id;
  name := v_job.name;
  outcome := memdb._note_batch(v_job, v_run, remaining, note, v_error, elapsed_ms, memdb.current_time());
  if not memdb._is_operator() and p_tenant <> all (memdb.bound_tenants()) then
    -- It may quote a namespace that the caller does not see.
    note := null;
  end if;
  return next;
end $$;
comment on function memdb.run_due_jobs (integer, text) is 'Do one bounded batch of the job that has been due longest.';

-- claim_job: take a due job that is done outside of the database, with a lease; null where it is not due or somebody is at it.
--
-- Returns the run to name in finish_job. The lease lasts for the job's timeout. Raises MD001, MD301, MD303.
create or replace function memdb.claim_job (p_tenant integer, p_name text, p_worker text)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now timestamptz;
  v_job memdb.job;
  v_run bigint;
begin
  perform memdb._authorize(p_tenant, true);
  v_now := memdb.current_time();
  if not exists (select from memdb._job_kinds() k where k.name = p_name and not k.is_inside) then
    perform memdb._raise('MD001', 'no job of this name is done by workers', jsonb_build_object('field', 'name', 'name', left(p_name, 200)),
      'run_due_jobs does the others.');
  end if;
  perform memdb._ensure_jobs(p_tenant, v_now);
  v_job := memdb._due_job(p_tenant, false, p_name, v_now);
  if v_job.name is null then
    return null;
  end if;
  -- Whoever had it is gone with its lease: its run ends here.
  update memdb.job_run r set outcome = 'failed', finished_at = v_now, error = 'the lease ran out'
   where r.tenant_id = p_tenant and r.run_id = v_job.run_id and r.outcome = 'running';
  v_job.run_id := null;
  v_run := memdb._begin_run(v_job, p_worker, v_now);
  update memdb.job j
     set run_id = v_run, worker = left(p_worker, 200), leased_until = v_now + make_interval(secs => v_job.timeout_seconds)
   where j.tenant_id = p_tenant and j.name = p_name;
  return v_run;
end $$;
comment on function memdb.claim_job (integer, text, text) is 'Take a due job that is done outside of the database, with a lease; null where it is not due or somebody is at it.';

-- finish_job: say how a claimed job went, and give up its lease.
--
-- p_error: why it failed; it is then tried again after a pause. p_note: what was done. Raises MD204
-- where the lease ran out and somebody else has it, MD301.
create or replace function memdb.finish_job (
  p_tenant integer,
  p_name   text,
  p_run_id bigint,
  p_error  text default null,
  p_note   text default null
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now timestamptz;
  v_job memdb.job;
begin
  perform memdb._authorize(p_tenant, true);
  v_now := memdb.current_time();
  select j.* into v_job from memdb.job j
   where j.tenant_id = p_tenant and j.name = p_name and j.run_id = p_run_id and j.leased_until is not null
     for no key update;
  if not found then
    perform memdb._raise('MD204', 'the job was taken over by another worker', jsonb_build_object('name', left(p_name, 200)),
      'Its work is done again there, or was; give jobs a longer timeout with schedule_job.');
  end if;
  perform memdb._note_batch(v_job, p_run_id, 0, null, p_error,
    (select extract(epoch from v_now - r.started_at) * 1000 from memdb.job_run r where r.tenant_id = p_tenant and r.run_id = p_run_id)::real, v_now);
  update memdb.job_run r set error = left(p_note, 2000)
   where r.tenant_id = p_tenant and r.run_id = p_run_id and p_error is null and p_note is not null;
end $$;
comment on function memdb.finish_job (integer, text, bigint, text, text) is 'Say how a claimed job went, and give up its lease.';
