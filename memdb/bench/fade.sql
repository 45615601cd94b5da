-- fade: a tenant of many memories of which some are due, for fade.py.
--
-- Functions of the session (pg_temp). Rows are written straight into the table memory, as record_memories
-- would leave them; what they say plays no part.

-- grow: write a tenant with p_rows memories, none of them due for months; returns its id and the first memory.
create or replace function pg_temp.grow (p_rows integer)
  returns bigint[]
  language plpgsql
as $$
declare
  v_tenant integer;
  v_space  integer;
  v_first  bigint;
  v_now    timestamptz := clock_timestamp();
begin
  if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
    set local session_replication_role = replica;
  end if;
  insert into memdb.tenant as t (name) values (format('bench fade %s %s', p_rows, gen_random_uuid())) returning t.tenant_id into v_tenant;
  insert into memdb.namespace as n (tenant_id, path) values (v_tenant, 'default') returning n.namespace_id into v_space;
  v_first := setval('memdb.memory_memory_id_seq', nextval('memdb.memory_memory_id_seq') + p_rows) - p_rows + 1;
  insert into memdb.memory (tenant_id, memory_id, namespace_id, user_id, type, content_hash, occurred_at, recorded_at, importance, fades_at)
    overriding system value
    select v_tenant, v_first + n, v_space, 'user ' || n % 1000, 'fact', int8send(v_first + n), v_now - n * interval '1 minute', v_now,
           1 + n % 9, memdb._fades_at(l.life, 'fact', 'long_term', false, true, 1 + n % 9, 1, 0, v_now)
      from generate_series(0, p_rows - 1) n
      cross join (select memdb._life(v_tenant, v_space)) l (life);
  return array[v_tenant, v_first];
end $$;

-- make_due: let every p_step-th memory, p_due of them, have faded years ago; forgets what an earlier round did.
create or replace function pg_temp.make_due (p_tenant integer, p_first bigint, p_step bigint, p_due integer)
  returns bigint
  language plpgsql
as $$
declare
  v_due bigint;
begin
  update memdb.memory m set tier = 'long_term', recorded_at = '2001-01-01', fades_at = '2010-01-01'
   where m.tenant_id = p_tenant and m.memory_id = any (array(select p_first + n * p_step from generate_series(0, p_due - 1) n));
  get diagnostics v_due = row_count;
  return v_due;
end $$;

-- archive_due: what a job that knew the rows would do at least: one plain UPDATE of them.
create or replace function pg_temp.archive_due (p_tenant integer, p_first bigint, p_step bigint, p_due integer)
  returns bigint
  language plpgsql
as $$
declare
  v_due bigint;
begin
  update memdb.memory m set tier = 'archive', fades_at = null
   where m.tenant_id = p_tenant and m.memory_id = any (array(select p_first + n * p_step from generate_series(0, p_due - 1) n));
  get diagnostics v_due = row_count;
  return v_due;
end $$;

-- decay_all: what fading costs where every memory carries its strength: all rows rewritten.
create or replace function pg_temp.decay_all (p_tenant integer)
  returns bigint
  language plpgsql
as $$
declare
  v_rows bigint;
begin
  update memdb.memory m set confidence = m.confidence * 0.9999 where m.tenant_id = p_tenant;
  get diagnostics v_rows = row_count;
  return v_rows;
end $$;

-- count_left: how many memories of a tenant are not archived.
create or replace function pg_temp.count_left (p_tenant integer)
  returns bigint
  language sql
as $$
  select count(*) from memdb.memory m where m.tenant_id = p_tenant and m.tier <> 'archive';
$$;
