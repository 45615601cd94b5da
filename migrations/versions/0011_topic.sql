-- 0011_topic: groups of memories that are about the same thing.

create table memdb.topic (
  tenant_id    integer not null,
  topic_id     bigint generated always as identity,
  namespace_id integer not null,
  label        text,
  entity_id    bigint,
  members      integer not null default 0,
  is_due       boolean not null default true,
  moving_to    bigint,
  moves_all    boolean not null default false,
  moved_after  bigint not null default 0,
  recorded_at  timestamptz not null default memdb.current_time(),
  changed_at   timestamptz not null default memdb.current_time(),
  constraint topic_pkey primary key (tenant_id, topic_id),
  constraint topic_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint topic_entity_fkey foreign key (tenant_id, entity_id)
    references memdb.entity (tenant_id, entity_id) on delete set null (entity_id),
  constraint topic_label_check check (char_length(label) <= 500),
  constraint topic_moving_fkey foreign key (tenant_id, moving_to)
    references memdb.topic (tenant_id, topic_id) on delete set null (moving_to),
  constraint topic_moving_check check (moving_to <> topic_id)
) with (fillfactor = 70);
comment on table memdb.topic is 'A group of memories of one namespace that are about the same thing.';
comment on column memdb.topic.label is 'An entity, or the words that tell its memories from others; null until refresh_topics came by.';
comment on column memdb.topic.is_due is 'Whether members came or went since label and centroid were made.';
comment on column memdb.topic.moving_to is 'The topic its members are being moved to, in order of id beyond moved_after: all of them, or those nearer to that one.';
create index topic_namespace_idx on memdb.topic (tenant_id, namespace_id, topic_id);
create index topic_due_idx on memdb.topic (tenant_id, topic_id) where is_due;
create index topic_moving_idx on memdb.topic (tenant_id, moving_to) where moving_to is not null;
create index topic_entity_idx on memdb.topic (tenant_id, entity_id) where entity_id is not null;

create table memdb.topic_centroid (
  tenant_id    integer not null,
  model_id     integer not null,
  topic_id     bigint not null,
  namespace_id integer not null,
  vector       halfvec not null,
  constraint topic_centroid_pkey primary key (tenant_id, model_id, topic_id),
  constraint topic_centroid_model_fkey foreign key (tenant_id, model_id)
    references memdb.embedding_model (tenant_id, model_id) on delete cascade,
  constraint topic_centroid_topic_fkey foreign key (tenant_id, topic_id)
    references memdb.topic (tenant_id, topic_id) on delete cascade
);
alter table memdb.topic_centroid alter column vector set storage plain;
comment on table memdb.topic_centroid is 'The middle of a topic by one encoder, as a unit vector.';
create index topic_centroid_namespace_idx on memdb.topic_centroid (tenant_id, model_id, namespace_id);
create index topic_centroid_topic_idx on memdb.topic_centroid (tenant_id, topic_id);

create table memdb.memory_topic (
  tenant_id    integer not null,
  memory_id    bigint not null,
  version      integer not null,
  topic_id     bigint not null,
  namespace_id integer not null,
  constraint memory_topic_pkey primary key (tenant_id, memory_id),
  -- What erases a memory need not know of topics.
  constraint memory_topic_memory_fkey foreign key (tenant_id, memory_id)
    references memdb.memory (tenant_id, memory_id) on delete cascade,
  constraint memory_topic_topic_fkey foreign key (tenant_id, topic_id)
    references memdb.topic (tenant_id, topic_id)
);
comment on table memdb.memory_topic is 'Which topic a memory belongs to, by which version that was decided.';
create index memory_topic_topic_idx on memdb.memory_topic (tenant_id, topic_id, memory_id);

create table memdb.topic_progress (
  tenant_id integer not null,
  seen_id   bigint not null default 0,
  swept_id  bigint not null default 0,
  constraint topic_progress_pkey primary key (tenant_id),
  constraint topic_progress_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.topic_progress is 'How far refresh_topics came: the newest memory it saw, and where its round through the older ones stands.';

-- _forget_topic_members: a topic that lost erased memories must not keep their words or direction.
--
-- Without members it goes too.
create function memdb._forget_topic_members ()
  returns trigger
  language plpgsql volatile
as $$
begin
  update memdb.topic t
     set members = greatest(t.members - g.memories, 0), is_due = true, label = null
    from (select d.tenant_id, d.topic_id, count(*)::integer as memories from gone d group by d.tenant_id, d.topic_id) g
   where t.tenant_id = g.tenant_id and t.topic_id = g.topic_id;
  delete from memdb.topic_centroid c
   using gone d
   where c.tenant_id = d.tenant_id and c.topic_id = d.topic_id;
  delete from memdb.topic t
   using gone d
   where t.tenant_id = d.tenant_id and t.topic_id = d.topic_id
     and not exists (select from memdb.memory_topic m where m.tenant_id = t.tenant_id and m.topic_id = t.topic_id);
  return null;
end $$;
comment on function memdb._forget_topic_members () is 'A topic that lost erased memories must not keep their words or direction.';
create trigger memory_topic_forget after delete on memdb.memory_topic
  referencing old table as gone for each statement execute function memdb._forget_topic_members();

alter table memdb.topic          enable row level security;
alter table memdb.topic_centroid enable row level security;
alter table memdb.memory_topic   enable row level security;
alter table memdb.topic_progress enable row level security;

create policy topic_app on memdb.topic for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy topic_operator        on memdb.topic        for select to memdb_operator using (true);
create policy memory_topic_operator on memdb.memory_topic for select to memdb_operator using (true);
