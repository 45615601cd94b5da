-- Forgetting, second half: hiding and deleting what is listed, batch by batch.
--
-- Each call does one bounded step and its transaction ends: nobody waits for longer than that, and
-- after a crash the next call goes on where the last commit was. The phases of an erasure:
--   part     memories that stay lose reasons           shed     and versions: under the truth lock alone
--   hide     memories that go lose status and names    work     no worker makes anything of events that go
--   recall   what the log of recalls says of it        audit    what the audit and kept answers say of it
--   spelling names that only it uses
--   before   keyword statistics brought up to date
--   memory   memories with all that hangs on them      event    events, tombstones for their keys
--   session  sessions that have nothing left           entity   entities nobody mentions any more
--   after    words taken out of the statistics         tenant   where all of it was to be forgotten

-- _hide_memories: mark some memories as going, so that a look at the row tells.
--
-- Identity goes too: the same fact told again is a new memory, and no key leads to the old one.
-- Work that waits for it (vectors, thinking again) ends here, so that no worker makes anything new of it.
create or replace function memdb._hide_memories (p_tenant integer, p_receipt bigint, p_ids bigint[], p_now timestamptz)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts jsonb := '{}';
  v_rows   bigint;
begin
  update memdb.memory m
     set erasure_id = p_receipt, external_id = null, content_hash = int8send(m.memory_id), status = 'retracted', fades_at = null
   where m.tenant_id = p_tenant and m.memory_id = any (p_ids);
  delete from memdb.embedding_queue q where q.tenant_id = p_tenant and q.memory_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'embedding_queue', v_rows);
  delete from memdb.rederivation d where d.tenant_id = p_tenant and d.memory_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'rederivation', v_rows);
  update memdb.profile p set memory_id = null, due_at = coalesce(p.due_at, p_now)
   where p.tenant_id = p_tenant and p.memory_id = any (p_ids);
  update memdb.summary s set memory_id = null, due_at = coalesce(s.due_at, p_now), reason = coalesce(s.reason, 'stale')
   where s.tenant_id = p_tenant and s.memory_id = any (p_ids);
  delete from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids);
  return v_counts;
end $$;
comment on function memdb._hide_memories (integer, bigint, bigint[], timestamptz) is 'Mark some memories as going, so that a look at the row tells.';

-- _end_work: let no worker take some events any more, nor finish what it has of them.
create or replace function memdb._end_work (p_tenant integer, p_ids bigint[])
  returns void
  language sql volatile
begin atomic
  update memdb.extraction x
     set state = 'done', finished_at = '-infinity', worker = null, leased_until = null, error = null, raw_output = null
   where x.tenant_id = p_tenant and x.event_id = any (p_ids) and x.state <> 'done';
end;
comment on function memdb._end_work (integer, bigint[]) is 'Let no worker take some events any more, nor finish what it has of them.';

-- _forget_answers: forget what was kept about a target as a whole: cached recalls, summaries and profiles of a user, a namespace or all.
create or replace function memdb._forget_answers (p_tenant integer, p_target jsonb)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_is_whole boolean := not p_target ?| array['types', 'kinds', 'from', 'to', 'agent', 'sessions', 'entities', 'event_ids', 'memory_ids'];
  v_counts   jsonb := '{}';
  v_rows     bigint;
begin
  delete from memdb.recall_cache c where c.tenant_id = p_tenant;
  insert into memdb.scope_write (tenant_id, namespace_id, xid) values (p_tenant, 0, pg_current_xact_id()) on conflict do nothing;
  delete from memdb.summary s
   where v_is_whole and s.tenant_id = p_tenant and (p_target -> 'user' is null or s.user_id = p_target ->> 'user')
     and (p_target -> 'namespaces' is null or p_target -> 'namespaces' @> to_jsonb(s.namespace_id));
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'summary', v_rows);
  delete from memdb.profile p
   where v_is_whole and p.tenant_id = p_tenant and (p_target -> 'user' is null or p.user_id = p_target ->> 'user')
     and (p_target -> 'namespaces' is null or p_target -> 'namespaces' @> to_jsonb(p.namespace_id));
  get diagnostics v_rows = row_count;
  return memdb._add_count(v_counts, 'profile', v_rows);
end $$;
comment on function memdb._forget_answers (integer, jsonb) is 'Forget what was kept about a target as a whole: cached recalls, summaries and profiles of a user, a namespace or all.';

-- _take_items: the next things of a kind on the list of an erasure: those that go, or those that stay.
create or replace function memdb._take_items (
  p_tenant  integer,
  p_receipt bigint,
  p_subject text,
  p_limit   integer,
  p_after   bigint  default 0,
  p_stays   boolean default false
)
  returns bigint[]
  language sql volatile
begin atomic
  select coalesce(array_agg(w.subject_id order by w.subject_id), '{}')
    from (select i.subject_id from memdb.erasure_item i
           where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = p_subject and i.subject_id > p_after
             and i.stays = p_stays
           order by i.subject_id limit p_limit) w;
end;
comment on function memdb._take_items (integer, bigint, text, integer, bigint, boolean) is 'The next things of a kind on the list of an erasure: those that go, or those that stay.';

-- _strike_items: take things off the list that are done with; ids of those that do not stay go into the receipt as hashes.
create or replace function memdb._strike_items (p_tenant integer, p_receipt bigint, p_subject text, p_ids bigint[], p_stay bigint[])
  returns void
  language sql volatile
begin atomic
  insert into memdb.erasure_hash (tenant_id, receipt_id, hash)
    select p_tenant, p_receipt, memdb._erasure_hash(r.salt, p_subject, w.id::text)
      from memdb.erasure_receipt r
      cross join unnest(p_ids) w (id)
     where r.tenant_id = p_tenant and r.receipt_id = p_receipt and w.id <> all (p_stay)
    on conflict do nothing;
  delete from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.subject = p_subject and i.subject_id = any (p_ids) and i.version = 0;
end;
comment on function memdb._strike_items (integer, bigint, text, bigint[], bigint[]) is 'Take things off the list that are done with; ids of those that do not stay go into the receipt as hashes.';

-- _empty_calls: take the words out of the calls of models that were about some events or memories; returns how many.
--
-- What they cost stays: budgets are held against it. The empty hash marks them: an answer that
-- comes in later is not kept (record_model_call).
create or replace function memdb._empty_calls (p_tenant integer, p_event_ids bigint[], p_memory_ids bigint[])
  returns bigint
  language plpgsql volatile
as $$
declare
  v_rows bigint;
begin
  select count(*) into v_rows from memdb.model_call c
   where c.tenant_id = p_tenant and (c.event_ids && p_event_ids or c.memory_ids && p_memory_ids) and c.prompt_hash <> '';
  update memdb.model_call c
     set request = null, response = null, error = null, prompt_hash = '',
         event_ids = array(select u.id from unnest(c.event_ids) u (id) where u.id <> all (p_event_ids)),
         memory_ids = array(select u.id from unnest(c.memory_ids) u (id) where u.id <> all (p_memory_ids))
   where c.tenant_id = p_tenant and (c.event_ids && p_event_ids or c.memory_ids && p_memory_ids);
  return v_rows;
end $$;
comment on function memdb._empty_calls (integer, bigint[], bigint[]) is 'Take the words out of the calls of models that were about some events or memories; returns how many.';

-- _forget_causes: take out of beliefs that stay what they say of events or memories that are deleted.
--
-- Words of a reason were given for the cause; with it they go.
create or replace function memdb._forget_causes (p_tenant integer, p_subject text, p_ids bigint[])
  returns void
  language sql volatile
begin atomic
  update memdb.belief b set root = null, root_id = null, reason = null
   where b.tenant_id = p_tenant and b.root = p_subject and b.root_id = any (p_ids);
end;
comment on function memdb._forget_causes (integer, text, bigint[]) is 'Take out of beliefs that stay what they say of events or memories that are deleted.';

-- _erase_memories: delete some memories and all that hangs on them; counts the rows by table.
create or replace function memdb._erase_memories (p_tenant integer, p_ids bigint[])
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts   jsonb;
  v_ids      bigint[];
  v_versions integer[];
  v_rows     bigint;
begin
  select coalesce(array_agg(v.memory_id), '{}'), coalesce(array_agg(v.version), '{}') into v_ids, v_versions
    from memdb.memory_version v where v.tenant_id = p_tenant and v.memory_id = any (p_ids);
  v_counts := memdb._delete_versions(p_tenant, v_ids, v_versions);
  delete from memdb.edge e where e.tenant_id = p_tenant and e.from_memory_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'edge', v_rows);
  delete from memdb.edge e where e.tenant_id = p_tenant and e.to_memory_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'edge', v_rows);
  delete from memdb.mention n where n.tenant_id = p_tenant and n.memory_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'mention', v_rows);
  delete from memdb.belief b where b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'belief', v_rows);
  perform memdb._forget_causes(p_tenant, 'memory', p_ids);
  delete from memdb.summary_queue q where q.tenant_id = p_tenant and q.memory_id = any (p_ids);
  delete from memdb.memory_use u where u.tenant_id = p_tenant and u.memory_id = any (p_ids);
  -- A question of which a forgotten memory is the answer is about it.
  delete from memdb.golden_query g where g.tenant_id = p_tenant and g.memory_ids && p_ids;
  update memdb.summary s set memory_id = null where s.tenant_id = p_tenant and s.memory_id = any (p_ids);
  delete from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'memory', v_rows);
  return memdb._add_count(v_counts, 'model_call', memdb._empty_calls(p_tenant, '{}', p_ids));
end $$;
comment on function memdb._erase_memories (integer, bigint[]) is 'Delete some memories and all that hangs on them; counts the rows by table.';

-- _erase_events: delete some events and all that hangs on them, leaving tombstones for their keys; counts the rows by table.
--
-- No memory rests on them any more. Calls of models come last: a call that is opened at this moment
-- holds a lock on its events until it is written (_insert_model_call), so that it is found.
create or replace function memdb._erase_events (p_tenant integer, p_ids bigint[], p_now timestamptz)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts jsonb := '{}';
  v_table  text;
  v_rows   bigint;
begin
  insert into memdb.event_tombstone (tenant_id, key_hash, forgotten_at)
    select p_tenant, memdb._key_hash(e.namespace_id, e.idempotency_key), p_now
      from memdb.event e
     where e.tenant_id = p_tenant and e.event_id = any (p_ids) and e.idempotency_key is not null
    on conflict do nothing;
  foreach v_table in array array['premise', 'edge', 'assessment', 'review_item', 'extraction'] loop
    execute format('delete from memdb.%I d where d.tenant_id = $1 and d.event_id = any ($2)', v_table) using p_tenant, p_ids;
    get diagnostics v_rows = row_count;
    v_counts := memdb._add_count(v_counts, v_table, v_rows);
  end loop;
  delete from memdb.belief b where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'belief', v_rows);
  perform memdb._forget_causes(p_tenant, 'event', p_ids);
  update memdb.memory_version v set event_id = null where v.tenant_id = p_tenant and v.event_id = any (p_ids);
  update memdb.event e set parent_event_id = null where e.tenant_id = p_tenant and e.parent_event_id = any (p_ids);
  delete from memdb.event e where e.tenant_id = p_tenant and e.event_id = any (p_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'event', v_rows);
  return memdb._add_count(v_counts, 'model_call', memdb._empty_calls(p_tenant, p_ids, '{}'));
end $$;
comment on function memdb._erase_events (integer, bigint[], timestamptz) is 'Delete some events and all that hangs on them, leaving tombstones for their keys; counts the rows by table.';

-- _erase_sessions: delete the sessions that have nothing left; of the others only the forgotten user's name goes.
create or replace function memdb._erase_sessions (p_tenant integer, p_ids bigint[], p_target jsonb)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_empty  bigint[] := array(
    select w.id from unnest(p_ids) w (id)
     where not exists (select from memdb.event e where e.tenant_id = p_tenant and e.session_id = w.id)
       and not exists (select from memdb.memory m where m.tenant_id = p_tenant and m.session_id = w.id));
  v_counts jsonb := '{}';
  v_rows   bigint;
begin
  delete from memdb.summary s where s.tenant_id = p_tenant and s.session_id = any (v_empty);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'summary', v_rows);
  delete from memdb.session s where s.tenant_id = p_tenant and s.session_id = any (v_empty);
  get diagnostics v_rows = row_count;
  update memdb.session s set user_id = null
   where s.tenant_id = p_tenant and s.session_id = any (p_ids) and s.user_id = p_target ->> 'user';
  update memdb.session s set agent_id = null
   where s.tenant_id = p_tenant and s.session_id = any (p_ids) and s.agent_id = p_target ->> 'agent';
  return memdb._add_count(v_counts, 'session', v_rows);
end $$;
comment on function memdb._erase_sessions (integer, bigint[], jsonb) is 'Delete the sessions that have nothing left; of the others only the forgotten user''s name goes.';

-- _is_spelt: whether a spelling of an entity occurs in a memory that mentions it, of those listed or of the others.
create or replace function memdb._is_spelt (p_tenant integer, p_entity bigint, p_alias text, p_is_listed boolean)
  returns boolean
  language sql stable
as $$
  select exists (
    select from memdb.mention n
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = n.memory_id
     where n.tenant_id = p_tenant and n.entity_id = p_entity
       and (position(p_alias in memdb._alias(v.text)) > 0 or position(p_alias in memdb._alias(coalesce(v.heading, ''))) > 0)
       and p_is_listed = exists (select from memdb.erasure_item i
                                  where i.tenant_id = p_tenant and i.subject = 'memory' and i.subject_id = n.memory_id));
$$;
comment on function memdb._is_spelt (integer, bigint, text, boolean) is 'Whether a spelling of an entity occurs in a memory that mentions it, of those listed or of the others.';

-- _forget_spellings: delete spellings of some entities that only what is listed uses; counts the rows by table.
--
-- Before the memories are deleted, while their words can be compared. An entity whose name was such a
-- spelling, also one merged into it, is called by the longest one left, or by its type.
create or replace function memdb._forget_spellings (p_tenant integer, p_ids bigint[])
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_rows bigint;
begin
  delete from memdb.entity_alias a
   where a.tenant_id = p_tenant and a.entity_id = any (p_ids)
     and memdb._is_spelt(p_tenant, a.entity_id, a.alias, true) and not memdb._is_spelt(p_tenant, a.entity_id, a.alias, false);
  get diagnostics v_rows = row_count;
  update memdb.entity e
     set name = coalesce((select a.alias from memdb.entity_alias a where a.tenant_id = p_tenant and a.entity_id = k.entity_id
                           order by char_length(a.alias) desc, a.alias limit 1), e.type)
    from (select e.entity_id as id, coalesce(e.merged_into, e.entity_id) as entity_id from memdb.entity e
           where e.tenant_id = p_tenant and (e.entity_id = any (p_ids) or e.merged_into = any (p_ids))) k
   where e.tenant_id = p_tenant and e.entity_id = k.id
     and not exists (select from memdb.entity_alias a
                      where a.tenant_id = p_tenant and a.entity_id = k.entity_id and a.alias = memdb._alias(e.name))
     and memdb._is_spelt(p_tenant, k.entity_id, memdb._alias(e.name), true);
  return memdb._add_count('{}', 'entity_alias', v_rows);
end $$;
comment on function memdb._forget_spellings (integer, bigint[]) is 'Delete spellings of some entities that only what is listed uses; counts the rows by table.';

-- _erase_entities: delete entities that nobody mentions any more; counts the rows by table.
--
-- One that others were merged into goes with them; they stay, as pointers, while it is mentioned.
create or replace function memdb._erase_entities (p_tenant integer, p_ids bigint[])
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_gone   bigint[] := array(
    select e.entity_id
      from memdb.entity e
     where e.tenant_id = p_tenant and (e.entity_id = any (p_ids) or e.merged_into = any (p_ids))
       and not exists (select from memdb.mention n where n.tenant_id = p_tenant
                          and n.entity_id in (e.entity_id, e.merged_into)));
  v_counts jsonb;
  v_rows   bigint;
begin
  delete from memdb.entity_alias a where a.tenant_id = p_tenant and a.entity_id = any (v_gone);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count('{}', 'entity_alias', v_rows);
  -- What points to another one first.
  delete from memdb.entity e where e.tenant_id = p_tenant and e.entity_id = any (v_gone) and e.merged_into is not null;
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'entity', v_rows);
  delete from memdb.entity e where e.tenant_id = p_tenant and e.entity_id = any (v_gone);
  get diagnostics v_rows = row_count;
  return memdb._add_count(v_counts, 'entity', v_rows);
end $$;
comment on function memdb._erase_entities (integer, bigint[]) is 'Delete entities that nobody mentions any more; counts the rows by table.';
