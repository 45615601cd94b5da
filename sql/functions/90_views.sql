-- Read views: the tables with their numbers spelled out, under the caller's own row security.
--
-- A new column goes at the end: `create or replace view` can only append.

create or replace view memdb.memories
  with (security_invoker = true) as
  select m.tenant_id, m.memory_id, m.version, n.path as namespace, m.user_id, m.agent_id, m.type, m.external_id,
         v.text, v.summary, v.heading, v.language, m.status, m.tier, m.is_pinned, m.importance, m.confidence, m.trust,
         m.occurred_at, v.valid_from, v.valid_to, v.recorded_at, v.metadata, m.session_id, m.sequence, m.use_count,
         m.last_used_at
    from memdb.shown_memory m
    join memdb.memory_version v
      on v.tenant_id = m.tenant_id and v.memory_id = m.memory_id and v.version = m.version
    join memdb.namespace n on n.tenant_id = m.tenant_id and n.namespace_id = m.namespace_id;
comment on view memdb.memories is 'Every memory with what it says today and its state, whatever its status.';

create or replace view memdb.memory_versions
  with (security_invoker = true) as
  select v.tenant_id, v.memory_id, v.version, v.version = m.version as is_current, n.path as namespace, v.user_id,
         m.type, v.text, v.summary, v.heading, v.language, v.metadata, v.event_id, v.valid_from, v.valid_to,
         v.recorded_at, v.retired_at
    from memdb.memory_version v
    join memdb.shown_memory m on m.tenant_id = v.tenant_id and m.memory_id = v.memory_id
    join memdb.namespace n on n.tenant_id = v.tenant_id and n.namespace_id = v.namespace_id;
comment on view memdb.memory_versions is 'Everything memories ever said, version by version, with both time axes.';

create or replace view memdb.events
  with (security_invoker = true) as
  select e.tenant_id, e.event_id, n.path as namespace, s.external_id as session, e.sequence, e.kind, e.text, e.input,
         e.output, e.user_id, e.agent_id, e.speaker, e.language, e.parent_event_id, e.occurred_at, e.time_zone,
         e.recorded_at, e.trust, e.idempotency_key, e.metadata, coalesce(b.status, 'active') as status
    from memdb.shown_event e
    join memdb.namespace n on n.tenant_id = e.tenant_id and n.namespace_id = e.namespace_id
    left join memdb.session s on s.tenant_id = e.tenant_id and s.session_id = e.session_id
    left join memdb.belief b
      on b.tenant_id = e.tenant_id and b.subject = 'event' and b.subject_id = e.event_id and b.to_at is null;
comment on view memdb.events is 'Every event as it was observed, with its session by name and whether it still counts.';

create or replace view memdb.entities
  with (security_invoker = true) as
  select e.tenant_id, e.entity_id, n.path as namespace, e.name, e.type, e.merged_into, e.recorded_at
    from memdb.shown_entity e
    join memdb.namespace n on n.tenant_id = e.tenant_id and n.namespace_id = e.namespace_id;
comment on view memdb.entities is 'Persons, places, products and things that memories mention; merged ones point to what they became.';
