-- cascade: shapes of memories that all rest on one event, and what is measured on them.
--
-- Functions of the session (pg_temp), called by cascade.py. Rows are written straight into the
-- tables, set by set: the recorder is measured elsewhere. Times are the server's, in milliseconds.

-- premise_of: what memory number p_n of a shape rests on: 0 is the event, other numbers memories.
create or replace function pg_temp.premise_of (p_shape text, p_n bigint)
  returns setof bigint
  language sql immutable
as $$
  select case p_shape when 'chain' then p_n - 1
                      when 'tree' then (p_n + 8) / 10 end
   where p_shape in ('chain', 'tree')
  union all
  -- Stacks of ten diamonds: of each three memories two rest on the last one before, the third on both.
  select case when (p_n - 1) % 30 < 2 then 0 when (p_n - 1) % 3 < 2 then (p_n - 1) / 3 * 3 else p_n - k end
    from generate_series(1, case when (p_n - 1) % 3 = 2 then 2 else 1 end) k
   where p_shape = 'diamond'
  union all
  -- One to three earlier memories, drawn from a hash, so that a run can be repeated.
  select distinct case when p_n <= 10 then 0
                       else 1 + (hashint8extended(p_n * 4 + k, 7) & 9223372036854775807) % (p_n - 1) end
    from generate_series(1, 1 + (hashint8extended(p_n, 11) & 9223372036854775807) % 3) k
   where p_shape = 'dag';
$$;

-- grow: write a tenant with p_size memories in a shape; returns its id, the event, the first memory.
--
-- In a dag every fifth memory has a second justification, on one other earlier memory: a fall has
-- to try it. Foreign keys and triggers are off until the transaction ends where the caller may do that.
create or replace function pg_temp.grow (p_shape text, p_size integer)
  returns bigint[]
  language plpgsql
as $$
declare
  v_tenant integer;
  v_root   bigint;
  v_space  integer;
  v_memory bigint;
  v_reason bigint;
  v_now    timestamptz := clock_timestamp();
begin
  if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
    set local session_replication_role = replica;
  end if;
  insert into memdb.tenant as t (name) values (format('bench %s %s %s', p_shape, p_size, gen_random_uuid()))
    returning t.tenant_id into v_tenant;
  insert into memdb.namespace as n (tenant_id, path) values (v_tenant, 'default') returning n.namespace_id into v_space;
  insert into memdb.event as e (tenant_id, namespace_id, kind, text, occurred_at, content_hash)
    values (v_tenant, v_space, 'user_message', 'what everything rests on', v_now, '\x00') returning e.event_id into v_root;
  -- Ids in one piece: number n of the shape is memory v_memory + n.
  v_memory := setval('memdb.memory_memory_id_seq', nextval('memdb.memory_memory_id_seq') + p_size) - p_size;
  v_reason := setval('memdb.justification_justification_id_seq', nextval('memdb.justification_justification_id_seq') + 2 * p_size)
    - 2 * p_size;
  insert into memdb.memory (tenant_id, memory_id, namespace_id, type, content_hash, occurred_at, recorded_at)
    overriding system value
    select v_tenant, v_memory + n, v_space, 'fact', int8send(v_memory + n), v_now, v_now from generate_series(1, p_size) n;
  insert into memdb.memory_version (tenant_id, memory_id, version, namespace_id, text, recorded_at)
    select v_tenant, v_memory + n, 1, v_space, 'conclusion ' || n, v_now from generate_series(1, p_size) n;
  insert into memdb.justification (tenant_id, justification_id, namespace_id, memory_id, version, method, supports, recorded_at)
    overriding system value
    select v_tenant, v_reason + n + p_size * k, v_space, v_memory + n, 1, 'rule', k = 0, v_now
      from generate_series(0, case when p_shape = 'dag' then 1 else 0 end) k
      cross join generate_series(1, p_size) n
     where k = 0 or (n % 5 = 0 and n > 10);
  insert into memdb.premise (tenant_id, justification_id, ordinal, namespace_id, conclusion_id, event_id, memory_id, memory_version,
                             supports)
    select v_tenant, v_reason + n, row_number() over (partition by n), v_space, v_memory + n,
           case when p.source = 0 then v_root end, case when p.source > 0 then v_memory + p.source end,
           case when p.source > 0 then 1 end, true
      from generate_series(1, p_size) n
      cross join lateral (select distinct f from pg_temp.premise_of(p_shape, n) f) p (source)
    union all
    select v_tenant, v_reason + n + p_size, 1, v_space, v_memory + n, null, v_memory + n / 2, 1, false
      from generate_series(11, p_size) n where p_shape = 'dag' and n % 5 = 0;
  return array[v_tenant, v_root, v_memory + 1];
end $$;

-- fell: take the event back, or (p_restore) let it count again; the milliseconds it took.
create or replace function pg_temp.fell (p_tenant integer, p_event bigint, p_size integer, p_restore boolean)
  returns double precision
  language plpgsql
as $$
declare
  v_begun   timestamptz := clock_timestamp();
  v_changed bigint;
begin
  if p_restore then
    select count(*) into v_changed from memdb.restore_event(p_tenant, p_event) c where c.subject = 'memory';
  else
    select count(*) into v_changed from memdb.retract_event(p_tenant, p_event) c where c.subject = 'memory';
  end if;
  if v_changed <> p_size then
    raise exception '% memories changed, not %', v_changed, p_size;
  end if;
  return extract(epoch from clock_timestamp() - v_begun) * 1000;
end $$;

-- touch: a plain UPDATE of the status of every memory of a tenant; the milliseconds it took.
create or replace function pg_temp.touch (p_tenant integer, p_status text)
  returns double precision
  language plpgsql
as $$
declare
  v_begun timestamptz := clock_timestamp();
begin
  update memdb.memory m set status = p_status where m.tenant_id = p_tenant;
  return extract(epoch from clock_timestamp() - v_begun) * 1000;
end $$;
