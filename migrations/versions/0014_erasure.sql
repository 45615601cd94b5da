-- 0014_erasure: forgetting for good, what may not be forgotten, and content kept in files.
--
-- erasure_receipt  one request to forget: what it found, who asked, how far it is
-- erasure_item     what an erasure has still to delete; hidden from every read meanwhile
-- erasure_hash     the ids it deleted, as salted hashes: what verify_erasure looks for
-- event_tombstone  hashed keys of forgotten events: a retry does not bring them back
-- legal_hold       what may not be forgotten
-- cold_file        files that hold the words of archived memories

create table memdb.erasure_receipt (
  tenant_id    integer not null,
  receipt_id   bigint generated always as identity,
  state        text not null default 'erasing',
  phase        text not null default 'recall',
  place        bigint not null default 0,
  target       jsonb not null,
  reason       text,
  actor        text not null,
  salt         bytea not null,
  requested_at timestamptz not null,
  finished_at  timestamptz,
  counts       jsonb not null default '{}',
  kept         jsonb not null default '{}',
  constraint erasure_receipt_pkey primary key (tenant_id, receipt_id),
  constraint erasure_receipt_state_check check (state in ('erasing', 'done')),
  constraint erasure_receipt_finished_check check ((state = 'done') = (finished_at is not null))
);
comment on table memdb.erasure_receipt is 'One request to forget: what was asked by whom and why, what it deleted, and how far it is.';
comment on column memdb.erasure_receipt.target is 'While it runs as asked, afterwards with users, agents and ids as salted hashes.';
comment on column memdb.erasure_receipt.counts is 'Rows deleted (of model_call: emptied) by table.';
comment on column memdb.erasure_receipt.kept is 'What was found and stays: memories with other support, events of others.';
create index erasure_receipt_open_idx on memdb.erasure_receipt (tenant_id, receipt_id) where state = 'erasing';

create table memdb.erasure_item (
  tenant_id  integer not null,
  subject    text not null,
  subject_id bigint not null,
  version    integer not null default 0,
  receipt_id bigint not null,
  wave       integer not null default 0,
  stays      boolean not null default false,
  constraint erasure_item_pkey primary key (tenant_id, subject, subject_id, version),
  constraint erasure_item_receipt_fkey foreign key (tenant_id, receipt_id)
    references memdb.erasure_receipt (tenant_id, receipt_id),
  constraint erasure_item_subject_check check (subject in ('event', 'version', 'memory', 'session', 'entity'))
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.erasure_item is 'What an erasure has still to delete; nobody reads it meanwhile.';
create index erasure_item_receipt_idx on memdb.erasure_item (tenant_id, receipt_id, subject, subject_id);

create table memdb.erasure_hash (
  tenant_id  integer not null,
  receipt_id bigint not null,
  hash       bytea not null,
  constraint erasure_hash_pkey primary key (tenant_id, receipt_id, hash),
  constraint erasure_hash_receipt_fkey foreign key (tenant_id, receipt_id)
    references memdb.erasure_receipt (tenant_id, receipt_id)
);
comment on table memdb.erasure_hash is 'What an erasure deleted, each id hashed with the salt of its receipt.';

create table memdb.event_tombstone (
  tenant_id    integer not null,
  key_hash     bytea not null,
  forgotten_at timestamptz not null,
  constraint event_tombstone_pkey primary key (tenant_id, key_hash)
);
comment on table memdb.event_tombstone is 'Hashed keys of forgotten events: whoever sends one again is told that it is known, and nothing is stored.';

create table memdb.legal_hold (
  tenant_id    integer not null,
  hold_id      bigint generated always as identity,
  namespace_id integer,
  user_id      text,
  reason       text not null,
  actor        text not null,
  set_at       timestamptz not null,
  lifted_at    timestamptz,
  constraint legal_hold_pkey primary key (tenant_id, hold_id),
  constraint legal_hold_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint legal_hold_reason_check check (reason <> '' and char_length(reason) <= 1000)
);
comment on table memdb.legal_hold is 'What may not be forgotten: of a user, of a namespace and those below it, of a user there, or (both null) of the tenant.';
create unique index legal_hold_open_idx on memdb.legal_hold (tenant_id, namespace_id, user_id)
  nulls not distinct where lifted_at is null;

create table memdb.cold_file (
  tenant_id    integer not null,
  file_id      bigint generated always as identity,
  namespace_id integer not null,
  month        date not null,
  name         text not null,
  sha256       bytea not null,
  bytes        bigint not null,
  versions     integer not null,
  has_erased   boolean not null default false,
  exported_at  timestamptz not null,
  constraint cold_file_pkey primary key (tenant_id, file_id),
  constraint cold_file_name_key unique (tenant_id, name),
  constraint cold_file_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint cold_file_name_check check (name <> '' and char_length(name) <= 500),
  constraint cold_file_sha256_check check (octet_length(sha256) = 32)
);
comment on table memdb.cold_file is 'Files that hold the words of archived memories of one namespace and month, with their checksums.';
comment on column memdb.cold_file.has_erased is 'Whether it still holds words that were forgotten since: it is to be written anew without them.';

alter table memdb.memory add column erasure_id bigint;
comment on column memdb.memory.erasure_id is 'The erasure that is about to delete it: no read shows it any more.';

alter table memdb.memory_version add column cold_file_id bigint, add column cold_hash bytea;
alter table memdb.memory_version add constraint memory_version_cold_fkey foreign key (tenant_id, cold_file_id)
  references memdb.cold_file (tenant_id, file_id);
comment on column memdb.memory_version.cold_file_id is 'The file that holds its words; text is then only their beginning, or the summary.';
comment on column memdb.memory_version.cold_hash is 'The content hash of the words in the file.';
create index memory_version_cold_idx on memdb.memory_version (tenant_id, cold_file_id) where cold_file_id is not null;

-- Deleting a row asks every table that refers to it. Partial indexes on live edges do not answer that,
-- nor (before PostgreSQL 18) a key that has the model before the memory: each row would read the tenant.
create index edge_from_memory_idx on memdb.edge (tenant_id, from_memory_id);
create index edge_to_memory_idx on memdb.edge (tenant_id, to_memory_id);
create index embedding_version_idx on memdb.embedding (tenant_id, memory_id, version);
create index embedding_cold_version_idx on memdb.embedding_cold (tenant_id, memory_id, version);
create index embedding_queue_version_idx on memdb.embedding_queue (tenant_id, memory_id, version);
create index entity_merged_idx on memdb.entity (tenant_id, merged_into) where merged_into is not null;
create index review_item_event_idx on memdb.review_item (tenant_id, event_id) where event_id is not null;
create index summary_session_idx on memdb.summary (tenant_id, session_id) where session_id is not null;

alter table memdb.erasure_receipt enable row level security;
alter table memdb.erasure_item    enable row level security;
alter table memdb.erasure_hash    enable row level security;
alter table memdb.event_tombstone enable row level security;
alter table memdb.legal_hold      enable row level security;
alter table memdb.cold_file       enable row level security;
create policy erasure_receipt_operator on memdb.erasure_receipt for select to memdb_operator using (true);
create policy legal_hold_operator      on memdb.legal_hold      for select to memdb_operator using (true);
create policy cold_file_operator       on memdb.cold_file       for select to memdb_operator using (true);

-- _is_erasing: whether any erasure is under way; for row-security policies, once a query.
create function memdb._is_erasing ()
  returns boolean
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select exists (select from memdb.erasure_receipt r where r.state = 'erasing');
$$;
comment on function memdb._is_erasing () is 'Whether any erasure is under way; for row-security policies, once a query.';

-- _is_hidden: whether an event or a memory is about to be deleted; for row-security policies, while something is.
create function memdb._is_hidden (p_tenant integer, p_subject text, p_subject_id bigint)
  returns boolean
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select exists (select from memdb.erasure_item i
                  where i.tenant_id = p_tenant and i.subject = p_subject and i.subject_id = p_subject_id and not i.stays)
     and (memdb._is_operator() or exists (select from memdb._grants() g where g.tenant_id = p_tenant));
$$;
comment on function memdb._is_hidden (integer, text, bigint) is 'Whether an event or a memory is about to be deleted; for row-security policies, while something is.';

-- Who reads under row security sees nothing of what is about to be deleted, from the moment it is marked.
alter policy memory_app on memdb.memory
  using ((tenant_id = any ((select memdb.bound_tenants())::integer[])
       or namespace_id = any ((select memdb.bound_namespaces())::integer[])) and erasure_id is null);
alter policy memory_operator on memdb.memory using (erasure_id is null);

do $$
declare
  c_scope constant text := '(tenant_id = any ((select memdb.bound_tenants())::integer[])'
    ' or namespace_id = any ((select memdb.bound_namespaces())::integer[]))';
  v_table record;
begin
  for v_table in
    select w.name, format('(not (select memdb._is_erasing()) or not %s)', w.hidden) as shown
      from (values
        ('event', 'memdb._is_hidden(tenant_id, ''event'', event_id)'),
        ('memory_version', 'memdb._is_hidden(tenant_id, ''memory'', memory_id)'),
        ('belief', 'memdb._is_hidden(tenant_id, subject, subject_id)'),
        ('assertion', 'memdb._is_hidden(tenant_id, ''memory'', memory_id)'),
        ('assessment', '(memdb._is_hidden(tenant_id, ''event'', event_id) or memdb._is_hidden(tenant_id, ''memory'', memory_id))'),
        ('review_item', '(memdb._is_hidden(tenant_id, ''memory'', memory_id)'
                        ' or memdb._is_hidden(tenant_id, ''memory'', other_memory_id))'))
        w (name, hidden)
  loop
    execute format('alter policy %s_app on memdb.%I using (%s and %s)', v_table.name, v_table.name, c_scope, v_table.shown);
    execute format('alter policy %s_operator on memdb.%I using (%s)', v_table.name, v_table.name, v_table.shown);
  end loop;
end $$;
