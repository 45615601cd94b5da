-- 0002_event: sessions, immutable events, and the work still to be done on each event.

create table memdb.session (
  tenant_id     integer not null,
  session_id    bigint generated always as identity,
  namespace_id  integer not null,
  external_id   text not null,
  user_id       text,
  agent_id      text,
  next_sequence integer not null default 1,
  token_budget  integer not null default 4000,
  started_at    timestamptz not null default memdb.current_time(),
  last_event_at timestamptz,
  constraint session_pkey primary key (tenant_id, session_id),
  constraint session_external_key unique (tenant_id, namespace_id, external_id),
  constraint session_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint session_external_check check (external_id <> '' and char_length(external_id) <= 512),
  constraint session_budget_check check (token_budget > 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table memdb.session is 'One conversation or task: who takes part, and the next sequence number, which orders its events without gaps.';

create table memdb.event (
  tenant_id       integer not null,
  event_id        bigint generated always as identity,
  namespace_id    integer not null,
  session_id      bigint,
  sequence        integer,
  kind            text not null,
  text            text not null default '',
  input           jsonb,
  output          jsonb,
  user_id         text,
  agent_id        text,
  speaker         text,
  language        text,
  parent_event_id bigint,
  occurred_at     timestamptz not null,
  time_zone       text not null default 'UTC',
  recorded_at     timestamptz not null default memdb.current_time(),
  trust           real not null default 1,
  idempotency_key text,
  content_hash    bytea not null,
  metadata        jsonb not null default '{}',
  constraint event_pkey primary key (tenant_id, event_id),
  constraint event_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint event_session_fkey foreign key (tenant_id, session_id)
    references memdb.session (tenant_id, session_id),
  constraint event_parent_fkey foreign key (tenant_id, parent_event_id)
    references memdb.event (tenant_id, event_id),
  constraint event_sequence_check check ((session_id is null) = (sequence is null)),
  constraint event_kind_check check (kind in (
    'user_message', 'assistant_message', 'system_message', 'tool_call', 'tool_result', 'thought',
    'answer', 'observation', 'recall', 'reflection', 'correction', 'document')),
  constraint event_trust_check check (trust >= 0 and trust <= 1),
  constraint event_content_check check (text <> '' or input is not null or output is not null)
);
comment on table memdb.event is 'Every observed step, stored first and never changed: the ground all memories rest on.';
comment on column memdb.event.text is 'What was said or done, as plain text; quoted spans of premises are offsets into it (in characters, 0-based).';
comment on column memdb.event.occurred_at is 'When it happened in the world; time_zone is the speaker''s zone, needed to resolve "yesterday".';
comment on column memdb.event.recorded_at is 'When memdb accepted it; the belief axis.';

create unique index event_idempotency_idx on memdb.event (tenant_id, namespace_id, idempotency_key)
  where idempotency_key is not null;
create unique index event_sequence_idx on memdb.event (tenant_id, session_id, sequence)
  where session_id is not null;
create index event_parent_idx on memdb.event (tenant_id, parent_event_id) where parent_event_id is not null;
create index event_namespace_idx on memdb.event (tenant_id, namespace_id, event_id);

create table memdb.extraction (
  tenant_id    integer not null,
  event_id     bigint not null,
  namespace_id integer not null,
  session_id   bigint,
  sequence     integer,
  state        text not null default 'pending',
  attempts     smallint not null default 0,
  next_at      timestamptz not null default memdb.current_time(),
  leased_until timestamptz,
  worker       text,
  error        text,
  raw_output   text,
  finished_at  timestamptz,
  constraint extraction_pkey primary key (tenant_id, event_id),
  constraint extraction_event_fkey foreign key (tenant_id, event_id)
    references memdb.event (tenant_id, event_id),
  constraint extraction_state_check check (state in ('pending', 'leased', 'done', 'failed', 'dead')),
  constraint extraction_attempts_check check (attempts >= 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.extraction is 'Work still to be done on an event: state, lease, attempts, last error and the raw model output that caused it.';

-- Only unfinished work is indexed, so the index stays as small as the backlog.
create index extraction_open_idx on memdb.extraction (tenant_id, session_id, sequence, event_id)
  where state in ('pending', 'leased', 'failed');
create index extraction_fresh_idx on memdb.extraction (tenant_id, namespace_id, event_id)
  where state in ('pending', 'leased', 'failed', 'dead');

alter table memdb.session    enable row level security;
alter table memdb.event      enable row level security;
alter table memdb.extraction enable row level security;

create policy session_app on memdb.session for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy event_app on memdb.event for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy session_operator    on memdb.session    for select to memdb_operator using (true);
create policy event_operator      on memdb.event      for select to memdb_operator using (true);
create policy extraction_operator on memdb.extraction for select to memdb_operator using (true);
