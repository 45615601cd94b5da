-- 0003_memory: memories, their versions, why each holds, and how they hang together.
--
-- memory          identity and mutable state, narrow, so that a cascade or a use is cheap
-- memory_version  what was written, immutable but for retired_at
-- justification   one derivation: all of its premises must hold
-- premise         what a justification rests on: an event (with a quoted span) or a memory version
-- belief          times in which an event or a memory was not plainly active; no row = active
-- edge            soft relations between memories

-- keyword_text_v1: the searchable lexemes of a text, with the scope it belongs to.
--
-- Words of languages written with spaces go through PostgreSQL's parser: English stems and
-- stop words for English, for texts of unknown language and for Latin words inside CJK text,
-- `simple` for the rest. Scripts written without spaces (Chinese, Japanese, Korean, Thai, Lao,
-- Burmese, Khmer) become single characters and overlapping pairs, each at the character's place;
-- a number beside such a character counts as one character of it, so that 8月29日 gives 8月,
-- 月29 and 29日. Characters that only steer how text is shown (direction marks, joiners, soft
-- hyphens) are left out: they would make another word of the word they stand in; a zero-width
-- space parts words, save beside such characters. p_scope goes in as it is. Text beyond 60,000
-- characters (45,000 where they take four bytes each) is not searchable by keyword: a tsvector
-- holds at most 1 MB.
-- Stored in a generated column, hence frozen here: a better one becomes keyword_text_v2.
create function memdb.keyword_text_v1 (
  p_text     text,
  p_heading  text,
  p_language text,
  p_scope    text[]
)
  returns tsvector
  language plpgsql immutable parallel safe
as $$
declare
  c_spaceless constant text :=
    '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff';
  c_invisible constant text := '\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff';
  v_body  text := pg_catalog.left(pg_catalog.normalize(
    pg_catalog.left(coalesce(p_heading || ' ', '') || p_text, 60000), 'NFKC'), 60000);
  v_units text;
  v_pairs pg_catalog.tsvector := '';
begin
  if pg_catalog.octet_length(v_body) > 180000 then
    v_body := pg_catalog.left(v_body, 45000);
  end if;
  if v_body ~ ('[\u200b' || c_invisible || ']') then
    v_body := pg_catalog.regexp_replace(v_body,
      '(?<=[' || c_spaceless || '])\u200b|\u200b(?=[' || c_spaceless || '])|[' || c_invisible || ']', '', 'g');
    v_body := pg_catalog.replace(v_body, U&'\200B', ' ');
  end if;
  if v_body ~ ('[' || c_spaceless || ']') then
    v_units := pg_catalog.regexp_replace(v_body, '[^0-9' || c_spaceless || ']+', ' | ', 'g');
    v_units := pg_catalog.regexp_replace(v_units, '([' || c_spaceless || '])', ' \1 ', 'g');
    v_units := pg_catalog.regexp_replace(v_units, ' +', ' ', 'g');
    select coalesce(pg_catalog.string_agg(
             -- Numbers are words of the parser already; they only join pairs here.
             case when u.unit ~ '^[0-9]' then '' else u.unit || ':' || u.place end
             || case when u.following <> '|' then ' ' || u.unit || u.following || ':' || u.place else '' end,
             ' '), '')::pg_catalog.tsvector
      into v_pairs
      from (select w.unit, least(w.place, 16383) as place,
                   pg_catalog.lead(w.unit, 1, '|') over (order by w.place) as following
              from pg_catalog.unnest(pg_catalog.string_to_array(pg_catalog.btrim(v_units), ' '))
                   with ordinality as w (unit, place)) u
     where u.unit <> '|';
    v_body := pg_catalog.regexp_replace(v_body, '[' || c_spaceless || ']+', ' ', 'g');
  end if;
  return pg_catalog.array_to_tsvector(p_scope)
      || pg_catalog.to_tsvector(
           case when coalesce(p_language, 'en') in ('en', 'zh', 'ja', 'ko', 'th', 'lo', 'my', 'km')
                then 'pg_catalog.english'::pg_catalog.regconfig
                else 'pg_catalog.simple'::pg_catalog.regconfig end, v_body)
      || v_pairs;
end $$;
comment on function memdb.keyword_text_v1 (text, text, text, text[]) is 'The searchable lexemes of a text, with the scope it belongs to.';

-- scope_lexemes_v1: the lexemes that tie a row to its tenant, namespace and user.
--
-- Each starts with a control character, so no word of a text can forge one. A user id of any
-- length is shortened to a hash: a collision costs a row that the caller's join drops again. A row
-- of no user says so too, so that "this user's and everybody's" is one look-up.
create function memdb.scope_lexemes_v1 (
  p_tenant    integer,
  p_namespace integer,
  p_user      text
)
  returns text[]
  language sql immutable parallel safe
begin atomic
  select array[
    E'\x01t' || p_tenant,
    E'\x01n' || p_namespace,
    E'\x01u' || p_tenant || '/' || coalesce(pg_catalog.left(pg_catalog.md5(p_user), 16), '')];
end;
comment on function memdb.scope_lexemes_v1 (integer, integer, text) is 'The lexemes that tie a row to its tenant, namespace and user.';

create table memdb.memory (
  tenant_id    integer not null,
  memory_id    bigint generated always as identity,
  namespace_id integer not null,
  session_id   bigint,
  sequence     integer,
  version      integer not null default 1,
  user_id      text,
  agent_id     text,
  type         text not null,
  external_id  text,
  content_hash bytea not null,
  status       text not null default 'active',
  tier         text not null default 'long_term',
  is_pinned    boolean not null default false,
  importance   real not null default 5,
  confidence   real not null default 1,
  trust        real not null default 1,
  occurred_at  timestamptz not null,
  recorded_at  timestamptz not null,
  fades_at     timestamptz,
  use_count    integer not null default 0,
  last_used_at timestamptz,
  constraint memory_pkey primary key (tenant_id, memory_id),
  constraint memory_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint memory_session_fkey foreign key (tenant_id, session_id)
    references memdb.session (tenant_id, session_id),
  constraint memory_type_check check (type in (
    'observation', 'reasoning', 'action', 'result', 'fact', 'preference', 'constraint', 'decision', 'summary')),
  constraint memory_status_check check (status in ('active', 'stale', 'superseded', 'contradicted', 'retracted')),
  constraint memory_tier_check check (tier in ('working', 'short_term', 'long_term', 'archive')),
  constraint memory_importance_check check (importance >= 0 and importance <= 10),
  constraint memory_confidence_check check (confidence >= 0 and confidence <= 1),
  constraint memory_trust_check check (trust >= 0 and trust <= 1),
  constraint memory_external_check check (external_id <> '' and char_length(external_id) <= 512)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
comment on table memdb.memory is 'One memory: the id that stays for life, and its state of today (status, tier, use); what it says is in memory_version.';
comment on column memdb.memory.session_id is 'With sequence: where its first source event stands, so that neighbouring turns are one index range.';
comment on column memdb.memory.status is 'active, stale (a support fell), superseded, contradicted, retracted; unindexed on purpose: a cascade stays a HOT update.';
comment on column memdb.memory.trust is 'Reliability of its best source, 0 to 1; a less trusted source never supersedes a more trusted one.';
comment on column memdb.memory.fades_at is 'Lower bound of the moment its strength crosses the threshold of its tier; null while pinned.';

create unique index memory_external_idx on memdb.memory (tenant_id, namespace_id, external_id)
  where external_id is not null;
-- With the user: two people's "I like tea" must not merge. Without a user it is one scope of its own.
create unique index memory_fact_idx on memdb.memory (tenant_id, namespace_id, content_hash, user_id)
  nulls not distinct where external_id is null;
create index memory_sequence_idx on memdb.memory (tenant_id, session_id, sequence, memory_id) where session_id is not null;
-- Newest first, what happened in a span of time, and the neighbours of a memory without a session.
create index memory_time_idx on memdb.memory (tenant_id, namespace_id, occurred_at, memory_id);

create table memdb.memory_version (
  tenant_id    integer not null,
  memory_id    bigint not null,
  version      integer not null,
  namespace_id integer not null,
  user_id      text,
  text         text not null,
  summary      text,
  heading      text,
  language     text,
  metadata     jsonb not null default '{}',
  event_id     bigint,
  valid_from   timestamptz,
  valid_to     timestamptz,
  recorded_at  timestamptz not null,
  retired_at   timestamptz,
  keyword      tsvector not null generated always as (
    memdb.keyword_text_v1(text, heading, language, memdb.scope_lexemes_v1(tenant_id, namespace_id, user_id))) stored,
  constraint memory_version_pkey primary key (tenant_id, memory_id, version),
  constraint memory_version_memory_fkey foreign key (tenant_id, memory_id)
    references memdb.memory (tenant_id, memory_id),
  constraint memory_version_event_fkey foreign key (tenant_id, event_id)
    references memdb.event (tenant_id, event_id),
  constraint memory_version_version_check check (version >= 1),
  constraint memory_version_text_check check (text <> ''),
  constraint memory_version_valid_check check (valid_from < valid_to),
  constraint memory_version_recorded_check check (recorded_at < retired_at)
) with (fillfactor = 95);
comment on table memdb.memory_version is 'What a memory said, version by version; only retired_at is ever set later.';
comment on column memdb.memory_version.heading is 'Words indexed and embedded with the text but not shown: date and speaker.';
comment on column memdb.memory_version.event_id is 'The event that caused this version.';
comment on column memdb.memory_version.valid_from is 'World axis: when it began to be true; null = always.';
comment on column memdb.memory_version.recorded_at is 'Belief axis: when memdb began to say so; retired_at is when it stopped.';

create index memory_version_keyword_idx on memdb.memory_version using gin (keyword);
create index memory_version_event_idx on memdb.memory_version (tenant_id, event_id) where event_id is not null;

create table memdb.belief (
  tenant_id    integer not null,
  namespace_id integer not null,
  subject      text not null,
  subject_id   bigint not null,
  status       text not null,
  from_at      timestamptz not null,
  to_at        timestamptz,
  cause        text not null,
  root         text,
  root_id      bigint,
  depth        integer not null default 0,
  actor        text,
  reason       text,
  constraint belief_pkey primary key (tenant_id, subject, subject_id, from_at),
  constraint belief_subject_check check (subject in ('event', 'memory')),
  constraint belief_root_check check (root in ('event', 'memory') and (root is null) = (root_id is null)),
  constraint belief_status_check check (status in ('stale', 'superseded', 'contradicted', 'retracted', 'corrected')),
  constraint belief_span_check check (from_at < to_at),
  constraint belief_depth_check check (depth >= 0)
) with (fillfactor = 90);
comment on table memdb.belief is 'Spans of time in which an event or a memory was not plainly active, with cause and root cause; no row means active.';

-- Every row of one correction has the same from_at (or to_at), and no other row of the tenant has it.
-- The time comes first so that only the primary key serves a search by subject: of a table that was
-- not analyzed since a great correction the planner believes that any index will do.
create index belief_from_idx on memdb.belief (from_at, tenant_id);
create index belief_to_idx on memdb.belief (to_at, tenant_id) where to_at is not null;

create table memdb.justification (
  tenant_id        integer not null,
  justification_id bigint generated always as identity,
  namespace_id     integer not null,
  memory_id        bigint not null,
  version          integer not null,
  method           text not null,
  confidence       real not null default 1,
  model            text,
  supports         boolean not null,
  recorded_at      timestamptz not null,
  constraint justification_pkey primary key (tenant_id, justification_id),
  constraint justification_version_fkey foreign key (tenant_id, memory_id, version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint justification_method_check check (method in (
    'verbatim', 'template', 'rule', 'model', 'merge', 'summary', 'manual')),
  constraint justification_confidence_check check (confidence >= 0 and confidence <= 1)
);
comment on table memdb.justification is 'One derivation of a memory version: it holds while all of its premises hold; any one justification is enough.';
comment on column memdb.justification.supports is 'Whether this is the one well-founded justification the memory stands on now.';

create index justification_memory_idx on memdb.justification (tenant_id, memory_id, version);
-- What else a fallen memory could stand on: asked of every one, and few have anything.
create index justification_other_idx on memdb.justification (tenant_id, memory_id) include (justification_id) where not supports;

create table memdb.premise (
  tenant_id        integer not null,
  justification_id bigint not null,
  ordinal          smallint not null,
  namespace_id     integer not null,
  conclusion_id    bigint not null,
  event_id         bigint,
  span_from        integer,
  span_to          integer,
  memory_id        bigint,
  memory_version   integer,
  supports         boolean not null,
  constraint premise_pkey primary key (tenant_id, justification_id, ordinal),
  constraint premise_justification_fkey foreign key (tenant_id, justification_id)
    references memdb.justification (tenant_id, justification_id),
  constraint premise_event_fkey foreign key (tenant_id, event_id)
    references memdb.event (tenant_id, event_id),
  constraint premise_memory_fkey foreign key (tenant_id, memory_id, memory_version)
    references memdb.memory_version (tenant_id, memory_id, version),
  constraint premise_source_check check ((event_id is null) <> (memory_id is null)),
  constraint premise_version_check check ((memory_id is null) = (memory_version is null)),
  constraint premise_span_check check (
    (span_from is null) = (span_to is null) and (span_from is null or event_id is not null)
    and span_from >= 0 and span_from < span_to)
);
comment on table memdb.premise is 'What a justification rests on: an event, with the quoted span of its text, or one version of a memory.';
comment on column memdb.premise.conclusion_id is 'The memory that rests on it, repeated from the justification so that a cascade reads one index.';
comment on column memdb.premise.supports is 'Repeated from the justification, for the same reason.';

create index premise_event_idx on memdb.premise (tenant_id, event_id)
  include (conclusion_id, justification_id, supports) where event_id is not null;
create index premise_memory_idx on memdb.premise (tenant_id, memory_id)
  include (memory_version, conclusion_id, justification_id, supports) where memory_id is not null;

create table memdb.edge (
  tenant_id      integer not null,
  edge_id        bigint generated always as identity,
  namespace_id   integer not null,
  from_memory_id bigint not null,
  to_memory_id   bigint not null,
  relation       text not null,
  weight         real not null default 1,
  confidence     real not null default 1,
  origin         text not null default 'caller',
  event_id       bigint,
  recorded_at    timestamptz not null,
  retired_at     timestamptz,
  constraint edge_pkey primary key (tenant_id, edge_id),
  constraint edge_from_fkey foreign key (tenant_id, from_memory_id)
    references memdb.memory (tenant_id, memory_id),
  constraint edge_to_fkey foreign key (tenant_id, to_memory_id)
    references memdb.memory (tenant_id, memory_id),
  constraint edge_event_fkey foreign key (tenant_id, event_id)
    references memdb.event (tenant_id, event_id),
  constraint edge_relation_check check (relation in ('premise', 'cause', 'refines', 'opposes', 'parallel', 'next')),
  constraint edge_weight_check check (weight > 0 and weight <= 1),
  constraint edge_confidence_check check (confidence >= 0 and confidence <= 1),
  constraint edge_origin_check check (origin in ('caller', 'rule', 'model')),
  constraint edge_loop_check check (from_memory_id <> to_memory_id),
  constraint edge_recorded_check check (recorded_at < retired_at)
);
comment on table memdb.edge is 'A soft relation between two memories; fells nothing. Hard premises are in premise, turns of a session in (session, sequence).';

create unique index edge_from_idx on memdb.edge (tenant_id, from_memory_id, to_memory_id, relation)
  include (weight) where retired_at is null;
create index edge_to_idx on memdb.edge (tenant_id, to_memory_id) include (from_memory_id, relation, weight)
  where retired_at is null;
create index edge_event_idx on memdb.edge (tenant_id, event_id) where event_id is not null;

create table memdb.entity (
  tenant_id    integer not null,
  entity_id    bigint generated always as identity,
  namespace_id integer not null,
  name         text not null,
  type         text not null default 'thing',
  merged_into  bigint,
  recorded_at  timestamptz not null default memdb.current_time(),
  constraint entity_pkey primary key (tenant_id, entity_id),
  constraint entity_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint entity_merged_fkey foreign key (tenant_id, merged_into)
    references memdb.entity (tenant_id, entity_id),
  constraint entity_name_check check (name <> '' and char_length(name) <= 500),
  constraint entity_merged_check check (merged_into <> entity_id)
);
comment on table memdb.entity is 'A person, place, product or thing that memories of one namespace mention.';

create table memdb.entity_alias (
  tenant_id    integer not null,
  namespace_id integer not null,
  alias        text not null,
  entity_id    bigint not null,
  constraint entity_alias_pkey primary key (tenant_id, namespace_id, alias),
  constraint entity_alias_entity_fkey foreign key (tenant_id, entity_id)
    references memdb.entity (tenant_id, entity_id),
  constraint entity_alias_alias_check check (alias <> '' and char_length(alias) <= 500)
);
comment on table memdb.entity_alias is 'Every spelling of an entity, case-folded; the way a mention finds its entity.';
create index entity_alias_entity_idx on memdb.entity_alias (tenant_id, entity_id);

create table memdb.mention (
  tenant_id    integer not null,
  memory_id    bigint not null,
  entity_id    bigint not null,
  namespace_id integer not null,
  constraint mention_pkey primary key (tenant_id, memory_id, entity_id),
  constraint mention_memory_fkey foreign key (tenant_id, memory_id)
    references memdb.memory (tenant_id, memory_id),
  constraint mention_entity_fkey foreign key (tenant_id, entity_id)
    references memdb.entity (tenant_id, entity_id)
);
comment on table memdb.mention is 'Which memory speaks of which entity.';
create index mention_entity_idx on memdb.mention (tenant_id, entity_id, memory_id);

-- Rows that record_memories hands from step to step: a batch is parsed and checked once.
create type memdb._memory_source as (
  ordinal integer, place smallint, event_id bigint, span_from integer, span_to integer, memory_id bigint,
  memory_version integer, namespace_id integer, session_id bigint, sequence integer, occurred_at timestamptz,
  time_zone text, user_id text, agent_id text, speaker text, language text, trust real
);
comment on type memdb._memory_source is 'One checked source of one item of a batch of memories.';

create type memdb._memory_item as (
  ordinal integer, text text, type text, namespace_id integer, user_id text, agent_id text, external_id text, summary text,
  heading text, language text, importance real, confidence real, tier text, is_pinned boolean, valid_from timestamptz,
  valid_to timestamptz, occurred_at timestamptz, metadata jsonb, method text, model text, vector text, entities jsonb,
  edges jsonb, content_hash bytea, session_id bigint, sequence integer, event_id bigint, trust real
);
comment on type memdb._memory_item is 'One checked and completed item of a batch of memories.';

create type memdb._memory_place as (
  ordinal integer, memory_id bigint, version integer, outcome text
);
comment on type memdb._memory_place is 'Which memory and version an item of a batch ended on, and how.';

create type memdb._truth_change as (
  subject text, subject_id bigint, version integer, depth integer, old_status text, new_status text, cause text,
  root text, root_id bigint
);
comment on type memdb._truth_change is 'One event or memory that a correction let fall, lifted or gave a new version.';
