-- year: what a year of use needs beside the functions of memdb, for year.py.
--
-- Functions of the session (pg_temp); they need the rights of memdb's owner.

-- begin_year: switch the test clock on, and make a tenant with a namespace; returns its id.
create or replace function pg_temp.begin_year ()
  returns integer
  language plpgsql
as $$
declare
  v_tenant integer;
begin
  insert into memdb.schema_info (key, value) values ('test_clock', 'on') on conflict (key) do update set value = 'on';
  select t.tenant_id into v_tenant from memdb.create_tenant('bench year ' || gen_random_uuid()) t;
  return v_tenant;
end $$;

-- end_year: switch the test clock off again.
create or replace function pg_temp.end_year ()
  returns void
  language sql
as $$
  delete from memdb.schema_info s where s.key = 'test_clock';
$$;

-- use: a recall that returned these memories, and an answer that cites them all.
create or replace function pg_temp.use (p_tenant integer, p_memory_ids bigint[])
  returns integer
  language plpgsql
as $$
declare
  v_recall bigint;
begin
  insert into memdb.recall as r (tenant_id, namespace_ids, memory_ids) values (p_tenant, '{}', p_memory_ids)
    returning r.recall_id into v_recall;
  return memdb.mark_used(p_tenant, v_recall, p_memory_ids);
end $$;

-- look: a day's figures as one object: memories by tier, archived ones that are pinned, or were used three times and in the last 14 days.
create or replace function pg_temp.look (p_tenant integer)
  returns jsonb
  language sql
as $$
  select jsonb_build_object(
    'tiers', (select jsonb_object_agg(t.tier, t.memories)
                from (select m.tier, count(*) as memories from memdb.memory m where m.tenant_id = p_tenant group by m.tier) t),
    'pinned_gone', (select count(*) from memdb.memory m where m.tenant_id = p_tenant and m.is_pinned and m.tier = 'archive'),
    'used_gone', (select count(*) from memdb.memory m
                   where m.tenant_id = p_tenant and m.tier = 'archive' and m.use_count >= 3
                     and m.last_used_at > memdb.current_time() - interval '14 days'));
$$;
