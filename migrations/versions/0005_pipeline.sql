-- 0005_pipeline: what the stages between event and memory leave behind.
--
-- assertion    what a memory says, as far as it fits into subject, attribute and value
-- assessment   why the words of an event were kept or dropped, and what became of them
-- review_item  what a person is asked to decide

create table memdb.assertion (
  tenant_id    integer not null,
  memory_id    bigint not null,
  version      integer not null,
  ordinal      smallint not null,
  namespace_id integer not null,
  user_id      text,
  subject      text not null,
  attribute    text not null,
  value        text not null,
  is_single    boolean not null,
  is_negated   boolean not null default false,
  constraint assertion_pkey primary key (tenant_id, memory_id, version, ordinal),
  constraint assertion_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint assertion_subject_check check (subject <> '' and char_length(subject) <= 200),
  constraint assertion_attribute_check check (attribute ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint assertion_value_check check (value <> '' and char_length(value) <= 500)
);
comment on table memdb.assertion is 'What a version of a memory says, as far as it fits into subject, attribute and value: how a changed fact finds the old one.';
comment on column memdb.assertion.subject is 'Case-folded and in one Unicode form, like an entity''s alias; value the same.';
comment on column memdb.assertion.is_single is 'Two values of one subject exclude each other (one lives in one place); otherwise they stand side by side.';
create index assertion_subject_idx on memdb.assertion (tenant_id, namespace_id, subject, attribute)
  include (memory_id, version);

create table memdb.assessment (
  tenant_id     integer not null,
  assessment_id bigint generated always as identity,
  namespace_id  integer not null,
  event_id      bigint not null,
  span_from     integer,
  span_to       integer,
  outcome       text not null,
  reason        text,
  importance    real,
  components    jsonb not null default '{}',
  confidence    real,
  memory_id     bigint,
  version       integer,
  recorded_at   timestamptz not null,
  constraint assessment_pkey primary key (tenant_id, assessment_id),
  constraint assessment_event_fkey foreign key (tenant_id, event_id)
    references memdb.event (tenant_id, event_id),
  constraint assessment_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint assessment_outcome_check check (outcome in ('created', 'confirmed', 'versioned', 'unchanged', 'dropped')),
  constraint assessment_memory_check check ((memory_id is null) = (outcome = 'dropped') and (memory_id is null) = (version is null)),
  constraint assessment_span_check check ((span_from is null) = (span_to is null) and span_from >= 0 and span_from < span_to)
);
comment on table memdb.assessment is 'Why the words of an event were kept or dropped: one row for each statement the pipeline saw, append-only.';
comment on column memdb.assessment.components is 'What the importance was made of, each 0 to 1: density, emotion, task, novelty.';
create index assessment_event_idx on memdb.assessment (tenant_id, event_id);
create index assessment_memory_idx on memdb.assessment (tenant_id, memory_id) where memory_id is not null;

create table memdb.review_item (
  tenant_id       integer not null,
  review_id       bigint generated always as identity,
  namespace_id    integer not null,
  kind            text not null,
  memory_id       bigint not null,
  version         integer not null,
  other_memory_id bigint,
  other_version   integer,
  event_id        bigint,
  question        text not null,
  details         jsonb not null default '{}',
  confidence      real,
  state           text not null default 'open',
  decision        text,
  decided_by      text,
  decided_at      timestamptz,
  recorded_at     timestamptz not null,
  constraint review_item_pkey primary key (tenant_id, review_id),
  constraint review_item_memory_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint review_item_other_fkey foreign key (tenant_id, other_memory_id, other_version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint review_item_event_fkey foreign key (tenant_id, event_id)
    references memdb.event (tenant_id, event_id),
  constraint review_item_kind_check check (kind in ('conflict', 'uncertain', 'stale')),
  constraint review_item_state_check check (state in ('open', 'decided')),
  constraint review_item_decision_check check ((state = 'decided') = (decided_at is not null)),
  constraint review_item_sides_check check (
    (other_memory_id is null) = (other_version is null) and other_memory_id <> memory_id
    and (kind <> 'conflict' or other_memory_id is not null))
);
comment on table memdb.review_item is 'What a person is asked to decide: two memories that cannot both be true, a write that is uncertain, a memory that lost its support.';
comment on column memdb.review_item.memory_id is 'The memory in question; of a conflict the newer side, other_memory_id being the older.';
-- The same question is put once, whichever side asks.
create unique index review_item_open_idx on memdb.review_item (
  tenant_id, kind, least(memory_id, other_memory_id), greatest(memory_id, other_memory_id)) where state = 'open';
create index review_item_namespace_idx on memdb.review_item (tenant_id, namespace_id, review_id) where state = 'open';
create index review_item_memory_idx on memdb.review_item (tenant_id, memory_id);
create index review_item_other_idx on memdb.review_item (tenant_id, other_memory_id) where other_memory_id is not null;

-- Whether anybody works on a session is asked for every session of every claim.
create index extraction_leased_idx on memdb.extraction (tenant_id, session_id, leased_until) where state = 'leased';

alter table memdb.assertion   enable row level security;
alter table memdb.assessment  enable row level security;
alter table memdb.review_item enable row level security;

create policy assertion_app on memdb.assertion for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy assessment_app on memdb.assessment for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy review_item_app on memdb.review_item for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy assertion_operator   on memdb.assertion   for select to memdb_operator using (true);
create policy assessment_operator  on memdb.assessment  for select to memdb_operator using (true);
create policy review_item_operator on memdb.review_item for select to memdb_operator using (true);
