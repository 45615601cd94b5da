-- What may be read: the tables without what is being forgotten.
--
-- An erasure lists what goes and commits; from then on nobody reads it, though its rows are deleted
-- batch by batch (75_erasure). Row security sees to that for applications. These views do for
-- whoever row security does not bind: functions that run with memdb's rights, and superusers. Without
-- an erasure under way they cost one look-up a query. The legs of recall ask the list themselves
-- (_is_recallable).

create or replace view memdb.shown_memory
  with (security_invoker = true) as
  select m.*
    from memdb.memory m
   where m.erasure_id is null
     and (not (select memdb._is_erasing()) or not memdb._is_hidden(m.tenant_id, 'memory', m.memory_id));
comment on view memdb.shown_memory is 'Memories, without those that are being forgotten.';

create or replace view memdb.shown_memory_version
  with (security_invoker = true) as
  select v.*
    from memdb.memory_version v
   where not (select memdb._is_erasing()) or not memdb._is_hidden(v.tenant_id, 'memory', v.memory_id);
comment on view memdb.shown_memory_version is 'Versions of memories, without those of memories that are being forgotten.';

create or replace view memdb.shown_event
  with (security_invoker = true) as
  select e.*
    from memdb.event e
   where not (select memdb._is_erasing()) or not memdb._is_hidden(e.tenant_id, 'event', e.event_id);
comment on view memdb.shown_event is 'Events, without those that are being forgotten.';

create or replace view memdb.shown_entity
  with (security_invoker = true) as
  select e.*
    from memdb.entity e
   where not (select memdb._is_erasing()) or not memdb._is_hidden(e.tenant_id, 'entity', e.entity_id);
comment on view memdb.shown_entity is 'Entities, without those that only memories mention which are being forgotten.';

-- _is_listed: whether an event or a memory is on the list of an erasure. Found by key.
create or replace function memdb._is_listed (p_tenant integer, p_subject text, p_subject_id bigint)
  returns boolean
  language sql stable parallel safe
begin atomic
  select exists (select from memdb.erasure_item i
                  where i.tenant_id = p_tenant and i.subject = p_subject and i.subject_id = p_subject_id);
end;
comment on function memdb._is_listed (integer, text, bigint) is 'Whether an event or a memory is on the list of an erasure. Found by key.';
