-- 0004_recall: vectors, keyword statistics and the recall log.

create table memdb.embedding_model (
  tenant_id     integer not null,
  model_id      integer generated always as identity,
  name          text not null,
  dimensions    integer not null,
  state         text not null default 'active',
  fingerprint   text,
  registered_at timestamptz not null default memdb.current_time(),
  constraint embedding_model_pkey primary key (tenant_id, model_id),
  constraint embedding_model_name_key unique (tenant_id, name),
  constraint embedding_model_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id),
  constraint embedding_model_name_check check (name <> '' and char_length(name) <= 200),
  constraint embedding_model_dimensions_check check (dimensions between 1 and 3800),
  constraint embedding_model_state_check check (state in ('filling', 'active', 'retired'))
);
comment on table memdb.embedding_model is 'Encoders whose vectors a tenant keeps; one is active, another may be filling beside it.';
create unique index embedding_model_active_idx on memdb.embedding_model (tenant_id) where state = 'active';

create table memdb.embedding (
  tenant_id    integer not null,
  model_id     integer not null,
  memory_id    bigint not null,
  version      integer not null,
  namespace_id integer not null,
  user_id      text,
  type         text not null,
  vector       halfvec not null,
  constraint embedding_pkey primary key (tenant_id, model_id, memory_id, version),
  constraint embedding_model_fkey foreign key (tenant_id, model_id)
    references memdb.embedding_model (tenant_id, model_id),
  constraint embedding_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version)
);
-- plain: a toasted vector costs a second look-up per distance.
alter table memdb.embedding alter column vector set storage plain;
comment on table memdb.embedding is 'Unit vectors of memory versions that recall searches; rows come and go but are never updated.';
create index embedding_namespace_idx on memdb.embedding (tenant_id, model_id, namespace_id, user_id);

create table memdb.embedding_cold (
  like memdb.embedding,
  constraint embedding_cold_pkey primary key (tenant_id, model_id, memory_id, version),
  constraint embedding_cold_model_fkey foreign key (tenant_id, model_id)
    references memdb.embedding_model (tenant_id, model_id),
  constraint embedding_cold_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version)
);
comment on table memdb.embedding_cold is 'Vectors that left the hot table (archived memories); no nearest-neighbour index, scanned exactly when asked for.';
create index embedding_cold_namespace_idx on memdb.embedding_cold (tenant_id, model_id, namespace_id, user_id);

create table memdb.embedding_queue (
  tenant_id    integer not null,
  model_id     integer not null,
  memory_id    bigint not null,
  version      integer not null,
  namespace_id integer not null,
  attempts     smallint not null default 0,
  leased_until timestamptz,
  error        text,
  constraint embedding_queue_pkey primary key (tenant_id, model_id, memory_id, version),
  constraint embedding_queue_model_fkey foreign key (tenant_id, model_id)
    references memdb.embedding_model (tenant_id, model_id),
  constraint embedding_queue_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table memdb.embedding_queue is 'Memory versions still without a vector of a model; a version has either a vector or a row here.';

-- Document frequencies come from a queue folded by a job: a counter row that every
-- writer updates would serialise them, and statistics a fifth out of date rank alike.
create table memdb.keyword_queue (
  tenant_id    integer not null,
  queue_id     bigint generated always as identity,
  namespace_id integer not null,
  memory_id    bigint,
  version      integer,
  lexemes      text[],
  sign         smallint not null default 1,
  constraint keyword_queue_pkey primary key (tenant_id, queue_id),
  constraint keyword_queue_sign_check check (sign in (-1, 1)),
  constraint keyword_queue_source_check check ((memory_id is null) <> (lexemes is null))
);
comment on table memdb.keyword_queue is 'Versions that came into (+1) or left (-1, with their lexemes) the keyword statistics since the last fold.';
create index keyword_queue_namespace_idx on memdb.keyword_queue (tenant_id, namespace_id, queue_id);

create table memdb.lexeme_stat (
  tenant_id    integer not null,
  namespace_id integer not null,
  lexeme       text not null,
  documents    integer not null,
  max_weight   real not null,
  constraint lexeme_stat_pkey primary key (tenant_id, namespace_id, lexeme)
) with (fillfactor = 80);
comment on table memdb.lexeme_stat is 'How many current versions of a namespace hold a lexeme, and the largest BM25 term weight seen, an upper bound.';

create table memdb.namespace_stat (
  tenant_id    integer not null,
  namespace_id integer not null,
  documents    integer not null default 0,
  tokens       bigint not null default 0,
  folded_at    timestamptz,
  constraint namespace_stat_pkey primary key (tenant_id, namespace_id),
  constraint namespace_stat_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id)
) with (fillfactor = 50);
comment on table memdb.namespace_stat is 'Number and total length of the current versions of a namespace, as of the last fold.';

create table memdb.recall (
  tenant_id     integer not null,
  recall_id     bigint generated always as identity,
  recorded_at   timestamptz not null default memdb.current_time(),
  namespace_ids integer[],
  user_id       text,
  agent_id      text,
  session_id    bigint,
  query         text,
  arguments     jsonb not null default '{}',
  memory_ids    bigint[] not null default '{}',
  versions      integer[] not null default '{}',
  scores        real[] not null default '{}',
  legs          jsonb not null default '{}',
  is_degraded   boolean not null default false,
  elapsed_ms    real,
  used_ids      bigint[],
  used_at       timestamptz,
  constraint recall_pkey primary key (tenant_id, recall_id, recorded_at)
) partition by range (recorded_at);
comment on table memdb.recall is 'What was asked and what came back, one row a recall; append-only but for the marks of what was used.';
create table memdb.recall_default partition of memdb.recall default;
comment on table memdb.recall_default is 'Rows of the recall log that no month partition holds.';

alter table memdb.memory          enable row level security;
alter table memdb.memory_version  enable row level security;
alter table memdb.belief          enable row level security;
alter table memdb.justification   enable row level security;
alter table memdb.premise         enable row level security;
alter table memdb.edge            enable row level security;
alter table memdb.entity          enable row level security;
alter table memdb.entity_alias    enable row level security;
alter table memdb.mention         enable row level security;
alter table memdb.embedding_model enable row level security;
alter table memdb.embedding       enable row level security;
alter table memdb.embedding_cold  enable row level security;
alter table memdb.embedding_queue enable row level security;
alter table memdb.keyword_queue   enable row level security;
alter table memdb.lexeme_stat     enable row level security;
alter table memdb.namespace_stat  enable row level security;
alter table memdb.recall          enable row level security;
alter table memdb.recall_default  enable row level security;

-- Content an app role may read itself. Not premise: its ids may name an event in a
-- namespace the caller cannot see; functions return it with such sources hidden.
create policy memory_app on memdb.memory for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy memory_version_app on memdb.memory_version for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy belief_app on memdb.belief for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy entity_app on memdb.entity for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy embedding_model_app on memdb.embedding_model for select to memdb_reader
  using (tenant_id in (select g.tenant_id from memdb._grants() g));

create policy memory_operator          on memdb.memory          for select to memdb_operator using (true);
create policy memory_version_operator  on memdb.memory_version  for select to memdb_operator using (true);
create policy belief_operator          on memdb.belief          for select to memdb_operator using (true);
create policy justification_operator   on memdb.justification   for select to memdb_operator using (true);
create policy premise_operator         on memdb.premise         for select to memdb_operator using (true);
create policy edge_operator            on memdb.edge            for select to memdb_operator using (true);
create policy entity_operator          on memdb.entity          for select to memdb_operator using (true);
create policy entity_alias_operator    on memdb.entity_alias    for select to memdb_operator using (true);
create policy mention_operator         on memdb.mention         for select to memdb_operator using (true);
create policy embedding_model_operator on memdb.embedding_model for select to memdb_operator using (true);
create policy recall_operator          on memdb.recall          for select to memdb_operator using (true);
