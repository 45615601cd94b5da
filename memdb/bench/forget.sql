-- forget: a tenant of two users, one of whom is forgotten.
--
-- Functions of the session (pg_temp), called by forget.py. Rows are written straight into the
-- tables, set by set.

-- settle: write p_size memories of each of two users, each on an event of its own; returns the tenant.
--
-- Every tenth memory of the one rests on one of the other as well, every tenth has that as a second
-- reason; each mentions an entity and has a vector.
create or replace function pg_temp.settle (p_size integer)
  returns integer
  language plpgsql
as $$
declare
  v_tenant integer;
  v_space  integer;
  v_model  integer;
  v_event  bigint;
  v_memory bigint;
  v_reason bigint;
  v_entity bigint;
  v_now    timestamptz := clock_timestamp() - interval '1 hour';
begin
  if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
    set local session_replication_role = replica;
  end if;
  insert into memdb.tenant as t (name) values (format('bench forget %s %s', p_size, gen_random_uuid())) returning t.tenant_id into v_tenant;
  insert into memdb.namespace as n (tenant_id, path) values (v_tenant, 'default') returning n.namespace_id into v_space;
  insert into memdb.embedding_model as m (tenant_id, name, dimensions) values (v_tenant, 'bench', 16) returning m.model_id into v_model;
  insert into memdb.entity as e (tenant_id, namespace_id, name) values (v_tenant, v_space, 'tea') returning e.entity_id into v_entity;
  insert into memdb.entity_alias (tenant_id, namespace_id, alias, entity_id) values (v_tenant, v_space, 'tea', v_entity);
  -- Ids in one piece: number n is event v_event + n, memory v_memory + n; odd ones are the one user's.
  v_event := setval('memdb.event_event_id_seq', nextval('memdb.event_event_id_seq') + 2 * p_size) - 2 * p_size;
  v_memory := setval('memdb.memory_memory_id_seq', nextval('memdb.memory_memory_id_seq') + 2 * p_size) - 2 * p_size;
  v_reason := setval('memdb.justification_justification_id_seq', nextval('memdb.justification_justification_id_seq') + 4 * p_size)
    - 4 * p_size;
  insert into memdb.event (tenant_id, event_id, namespace_id, kind, text, user_id, occurred_at, recorded_at, idempotency_key, content_hash)
    overriding system value
    select v_tenant, v_event + n, v_space, 'user_message', 'told number ' || n, case n % 2 when 1 then 'ann' else 'bob' end, v_now, v_now,
           'key ' || n, int8send(n)
      from generate_series(1, 2 * p_size) n;
  insert into memdb.extraction (tenant_id, event_id, namespace_id, state, finished_at)
    select v_tenant, v_event + n, v_space, 'done', v_now from generate_series(1, 2 * p_size) n;
  insert into memdb.memory (tenant_id, memory_id, namespace_id, type, user_id, content_hash, occurred_at, recorded_at)
    overriding system value
    select v_tenant, v_memory + n, v_space, 'fact', case n % 2 when 1 then 'ann' else 'bob' end, int8send(n), v_now, v_now
      from generate_series(1, 2 * p_size) n;
  insert into memdb.memory_version (tenant_id, memory_id, version, namespace_id, user_id, text, event_id, recorded_at)
    select v_tenant, v_memory + n, 1, v_space, case n % 2 when 1 then 'ann' else 'bob' end,
           format('fact number %s about tea and %s', n, md5(n::text)), v_event + n, v_now
      from generate_series(1, 2 * p_size) n;
  insert into memdb.justification (tenant_id, justification_id, namespace_id, memory_id, version, method, supports, recorded_at)
    overriding system value
    select v_tenant, v_reason + n + 2 * p_size * k, v_space, v_memory + n, 1, 'rule', k = 0, v_now
      from generate_series(0, 1) k cross join generate_series(1, 2 * p_size) n where k = 0 or n % 20 = 10;
  insert into memdb.premise (tenant_id, justification_id, ordinal, namespace_id, conclusion_id, event_id, memory_id, memory_version, supports)
    select v_tenant, v_reason + n, 1, v_space, v_memory + n, v_event + n, null, null, true from generate_series(1, 2 * p_size) n
    union all
    select v_tenant, v_reason + n, 2, v_space, v_memory + n, null, v_memory + n - 1, 1, true
      from generate_series(1, 2 * p_size) n where n % 20 = 20 - 2
    union all
    select v_tenant, v_reason + n + 2 * p_size, 1, v_space, v_memory + n, null, v_memory + n - 1, 1, false
      from generate_series(1, 2 * p_size) n where n % 20 = 10;
  insert into memdb.mention (tenant_id, memory_id, entity_id, namespace_id)
    select v_tenant, v_memory + n, v_entity, v_space from generate_series(1, 2 * p_size) n;
  insert into memdb.edge (tenant_id, namespace_id, from_memory_id, to_memory_id, relation, recorded_at)
    select v_tenant, v_space, v_memory + n, v_memory + n + 1, 'parallel', v_now from generate_series(1, 2 * p_size - 1) n where n % 3 = 0;
  insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id, user_id, type, vector)
    select v_tenant, v_model, v_memory + n, 1, v_space, case n % 2 when 1 then 'ann' else 'bob' end, 'fact',
           ('[' || repeat(((n % 97) - 48) || ',', 15) || '1]')::halfvec
      from generate_series(1, 2 * p_size) n;
  insert into memdb.namespace_stat (tenant_id, namespace_id, documents, tokens, folded_at)
    select v_tenant, v_space, 2 * p_size, 12 * p_size, v_now;
  return v_tenant;
end $$;

-- parts: whether the next batch of an erasure parts what stays from what goes.
create or replace function pg_temp.parts (p_receipt bigint)
  returns boolean
  language sql
as $$
  select r.phase in ('part', 'shed') from memdb.erasure_receipt r where r.receipt_id = p_receipt;
$$;
