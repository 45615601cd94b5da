-- 0006_truth: what the past, corrections and reviews need beyond 0003 and 0005.

-- What else a version was, kept when it is replaced: memory itself holds these of the current one only.
alter table memdb.memory_version add column replaced jsonb;
comment on column memdb.memory_version.replaced is 'Set with retired_at: type, importance, confidence, trust and occurred_at the memory had with this version.';

-- A premise that came later must not show in what was believed before it.
alter table memdb.premise add column added_at timestamptz;
comment on column memdb.premise.added_at is 'When add_premises added it; null = with its justification.';

-- When a root cause is gone, what still names it and is still out gets a new label. The root comes
-- first for the reason given with belief_from_idx.
create index belief_root_idx on memdb.belief (root_id, root, tenant_id) where to_at is null and root is not null;

-- What a decision did, so that it can be undone.
alter table memdb.review_item add column effects jsonb not null default '{}';
comment on column memdb.review_item.effects is 'What the decision changed: contradicted and retracted memories, the event and version it made, the confidence before; reopen_review undoes it.';

create table memdb.rederivation (
  tenant_id    integer not null,
  memory_id    bigint not null,
  version      integer not null,
  namespace_id integer not null,
  attempts     smallint not null default 0,
  next_at      timestamptz not null,
  leased_until timestamptz,
  worker       text,
  error        text,
  constraint rederivation_pkey primary key (tenant_id, memory_id),
  constraint rederivation_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint rederivation_attempts_check check (attempts >= 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.rederivation is 'Stale memories a model is to look at again, where policy when_stale says derive; a row goes when it is done or the memory stands again.';
create index rederivation_next_idx on memdb.rederivation (tenant_id, next_at);

alter table memdb.rederivation enable row level security;
create policy rederivation_operator on memdb.rederivation for select to memdb_operator using (true);
