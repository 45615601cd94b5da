-- 0007_ledger: what models were asked and what it cost; running summaries and what came since.
--
-- model_call   every call of a model, opened before it is sent, closed with its outcome
-- model_usage  the same summed by day, which budgets are held against and which outlives the calls
-- summary      whom running summaries are about, and whether they are due
-- summary_queue  memory versions written since summaries were last looked at

create table memdb.model_call (
  tenant_id    integer not null,
  call_id      bigint generated always as identity,
  recorded_at  timestamptz not null,
  namespace_id integer not null,
  purpose      text not null,
  model        text not null,
  prompt_hash  bytea not null,
  event_ids    bigint[] not null default '{}',
  memory_ids   bigint[] not null default '{}',
  outcome      text not null default 'open',
  tokens_held  integer not null default 0,
  tokens_in    integer,
  tokens_out   integer,
  cost         numeric(16, 8),
  latency_ms   real,
  finished_at  timestamptz,
  error        text,
  request      jsonb,
  response     text,
  constraint model_call_pkey primary key (tenant_id, call_id, recorded_at),
  constraint model_call_outcome_check check (outcome in ('open', 'ok', 'cached', 'invalid', 'refused', 'unavailable')),
  constraint model_call_finished_check check ((outcome = 'open') = (finished_at is null)),
  constraint model_call_purpose_check check (purpose ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint model_call_model_check check (model <> '' and char_length(model) <= 200),
  constraint model_call_tokens_check check (tokens_held >= 0 and tokens_in >= 0 and tokens_out >= 0)
) partition by range (recorded_at);
comment on table memdb.model_call is 'Every call of a model: opened before it is sent, closed once with what came of it.';
comment on column memdb.model_call.outcome is 'open: sent, and nothing heard (of a process that died, for ever); ok; cached: not sent, an earlier answer was used; invalid: the answer could not be used; refused: by the model or its endpoint; unavailable: no answer.';
comment on column memdb.model_call.tokens_held is 'Estimate that counts against the budget while the call is open.';
comment on column memdb.model_call.event_ids is 'The events whose words are in request and response, as memory_ids the memories: what erasing one of them has to look at.';
create index model_call_time_idx on memdb.model_call (tenant_id, recorded_at);
create index model_call_answer_idx on memdb.model_call (tenant_id, prompt_hash) where outcome = 'ok' and response is not null;
create index model_call_event_idx on memdb.model_call using gin (event_ids);
create index model_call_memory_idx on memdb.model_call using gin (memory_ids);
create table memdb.model_call_default partition of memdb.model_call default;
comment on table memdb.model_call_default is 'Calls of models that no month partition holds.';

create table memdb.model_usage (
  tenant_id    integer not null,
  namespace_id integer not null,
  day          date not null,
  purpose      text not null,
  model        text not null,
  calls        integer not null default 0,
  failed       integer not null default 0,
  cached       integer not null default 0,
  tokens_held  bigint not null default 0,
  tokens_in    bigint not null default 0,
  tokens_out   bigint not null default 0,
  cost         numeric(16, 8) not null default 0,
  constraint model_usage_pkey primary key (tenant_id, day, namespace_id, purpose, model),
  constraint model_usage_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id)
) with (fillfactor = 50);
comment on table memdb.model_usage is 'Calls of models by day (UTC), namespace, purpose and model: what budgets are held against.';

create table memdb.summary (
  tenant_id     integer not null,
  summary_id    bigint generated always as identity,
  namespace_id  integer not null,
  session_id    bigint,
  user_id       text,
  memory_id     bigint,
  facts         integer not null default 0,
  due_at        timestamptz,
  reason        text,
  attempts      smallint not null default 0,
  summarised_at timestamptz,
  constraint summary_pkey primary key (tenant_id, summary_id),
  constraint summary_subject_key unique nulls not distinct (tenant_id, namespace_id, session_id, user_id),
  constraint summary_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint summary_session_fkey foreign key (tenant_id, session_id)
    references memdb.session (tenant_id, session_id),
  constraint summary_memory_fkey foreign key (tenant_id, memory_id)
    references memdb.memory (tenant_id, memory_id),
  constraint summary_subject_check check ((session_id is null) <> (user_id is null)),
  constraint summary_due_check check ((due_at is null) = (reason is null)),
  constraint summary_reason_check check (reason in ('facts', 'task', 'stale'))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table memdb.summary is 'Running summaries of sessions and of users: the memory that holds each, and whether it is due to be written anew.';
comment on column memdb.summary.facts is 'Memories of its subject written since it was last handed out.';
comment on column memdb.summary.due_at is 'From when on it is handed out; while one works on it, when another may take over.';
create index summary_due_idx on memdb.summary (tenant_id, due_at) where due_at is not null;
create index summary_memory_idx on memdb.summary (tenant_id, memory_id) where memory_id is not null;

-- A counter on the summary itself would make all writers of a user wait for each other.
create table memdb.summary_queue (
  tenant_id integer not null,
  queue_id  bigint generated always as identity,
  memory_id bigint not null,
  version   integer not null,
  constraint summary_queue_pkey primary key (tenant_id, queue_id)
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.summary_queue is 'Memory versions that no running summary has counted yet.';

create table memdb.summary_mark (
  tenant_id integer not null,
  belief_at timestamptz not null,
  constraint summary_mark_pkey primary key (tenant_id),
  constraint summary_mark_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.summary_mark is 'Up to which correction of a tenant its summaries were checked for having become stale.';

-- What is known of a user, most important first.
create index memory_user_idx on memdb.memory (tenant_id, namespace_id, user_id, importance) where user_id is not null;

alter table memdb.model_call         enable row level security;
alter table memdb.model_call_default enable row level security;
alter table memdb.model_usage        enable row level security;
alter table memdb.summary            enable row level security;
alter table memdb.summary_queue      enable row level security;
alter table memdb.summary_mark       enable row level security;

-- A prompt holds words of events of any namespace: only for operators.
create policy model_call_operator    on memdb.model_call    for select to memdb_operator using (true);
create policy model_usage_operator   on memdb.model_usage   for select to memdb_operator using (true);
create policy summary_operator       on memdb.summary       for select to memdb_operator using (true);
create policy summary_queue_operator on memdb.summary_queue for select to memdb_operator using (true);
