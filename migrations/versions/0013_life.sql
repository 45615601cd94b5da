-- 0013_life: how memories fade, the log of their use, and the jobs that look after a tenant.
--
-- memory_use   uses and new ties of memories, appended by whoever sees them, folded by a job
-- refade       tenants whose policy of fading changed, and how far their memories were looked at since
-- fold_mark    up to which correction of a tenant it was seen what lost its ties
-- job          what is done regularly for a tenant, and when next
-- job_run      what became of it
-- golden_query questions of which the answers are known, asked by a job

alter table memdb.memory add column is_isolated boolean not null default true;
comment on column memdb.memory.is_isolated is 'Whether nothing live is tied to it, as of the last fold; it then fades faster. A new memory counts as isolated until its ties are folded.';

-- Only what can fade is in it: a use or a change of status leaves it alone and stays a HOT update.
create index memory_fades_idx on memdb.memory (tenant_id, fades_at) where fades_at is not null;

create table memdb.memory_use (
  tenant_id integer not null,
  memory_id bigint not null,
  use_id    bigint generated always as identity,
  uses      smallint not null,
  used_at   timestamptz not null,
  constraint memory_use_pkey primary key (tenant_id, memory_id, use_id),
  constraint memory_use_uses_check check (uses >= 0)
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.memory_use is 'What happened to memories since the last fold: uses, and (uses = 0) ties that were made or lost.';

create table memdb.refade (
  tenant_id integer not null,
  memory_id bigint not null,
  constraint refade_pkey primary key (tenant_id),
  constraint refade_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.refade is 'Tenants whose policy of fading changed: memories beyond memory_id may have a fades_at that is too late.';

create table memdb.fold_mark (
  tenant_id integer not null,
  belief_at timestamptz not null,
  constraint fold_mark_pkey primary key (tenant_id),
  constraint fold_mark_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.fold_mark is 'Up to which correction of a tenant it was seen which memories lost their ties.';

create table memdb.job (
  tenant_id       integer not null,
  name            text not null,
  every_seconds   integer,
  daily_at        text,
  time_zone       text not null default 'UTC',
  timeout_seconds integer not null default 300,
  is_enabled      boolean not null default true,
  next_at         timestamptz not null,
  leased_until    timestamptz,
  worker          text,
  run_id          bigint,
  failures        smallint not null default 0,
  constraint job_pkey primary key (tenant_id, name),
  constraint job_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id),
  constraint job_name_check check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint job_schedule_check check ((every_seconds is null) <> (daily_at is null)),
  constraint job_daily_check check (daily_at ~ '^([01][0-9]|2[0-3]):[0-5][0-9]$'),
  constraint job_every_check check (every_seconds between 1 and 31536000),
  constraint job_timeout_check check (timeout_seconds between 1 and 86400)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.job is 'What is done regularly for a tenant: every so many seconds or daily at a time, and when next. The functions behind the names are fixed.';
comment on column memdb.job.leased_until is 'While a worker is at work outside of a transaction: until when nobody else may be.';
comment on column memdb.job.run_id is 'The run that is not finished yet; the next call goes on with it.';
comment on column memdb.job.failures is 'Failures since the last success; the pause after each is twice the one before.';
create index job_due_idx on memdb.job (next_at) where is_enabled;

create table memdb.job_run (
  tenant_id   integer not null,
  run_id      bigint generated always as identity,
  name        text not null,
  started_at  timestamptz not null,
  finished_at timestamptz,
  outcome     text not null default 'running',
  batches     integer not null default 0,
  remaining   bigint,
  elapsed_ms  real not null default 0,
  worker      text,
  error       text,
  constraint job_run_pkey primary key (tenant_id, run_id),
  constraint job_run_outcome_check check (outcome in ('running', 'done', 'warned', 'failed', 'timed_out')),
  constraint job_run_finished_check check ((outcome = 'running') = (finished_at is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table memdb.job_run is 'Every run of a job: how many bounded batches it took, what remained after the last one, how it ended.';
create index job_run_name_idx on memdb.job_run (tenant_id, name, run_id);

create table memdb.golden_query (
  tenant_id    integer not null,
  golden_id    bigint generated always as identity,
  namespace_id integer not null,
  query        text not null,
  memory_ids   bigint[] not null,
  k            integer not null default 10,
  found        integer,
  asked_at     timestamptz,
  constraint golden_query_pkey primary key (tenant_id, golden_id),
  constraint golden_query_query_key unique (tenant_id, namespace_id, query),
  constraint golden_query_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint golden_query_ids_check check (cardinality(memory_ids) between 1 and 100),
  constraint golden_query_k_check check (k between 1 and 1000),
  constraint golden_query_text_check check (query <> '' and char_length(query) <= 8000)
);
comment on table memdb.golden_query is 'Questions of which the answers are known: a job asks them and warns where an answer is not found.';
comment on column memdb.golden_query.found is 'How many of memory_ids were among the first k when it was asked last.';

-- What was written before this revision: a job works out when it fades.
insert into memdb.refade (tenant_id, memory_id) select t.tenant_id, 0 from memdb.tenant t;

-- They get further columns.
drop function if exists memdb._health_rules();

alter table memdb.memory_use   enable row level security;
alter table memdb.refade       enable row level security;
alter table memdb.fold_mark    enable row level security;
alter table memdb.job          enable row level security;
alter table memdb.job_run      enable row level security;
alter table memdb.golden_query enable row level security;

-- Questions and errors quote texts of any namespace: only for operators.
create policy memory_use_operator   on memdb.memory_use   for select to memdb_operator using (true);
create policy job_operator          on memdb.job          for select to memdb_operator using (true);
create policy job_run_operator      on memdb.job_run      for select to memdb_operator using (true);
create policy golden_query_operator on memdb.golden_query for select to memdb_operator using (true);
