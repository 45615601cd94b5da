-- Forgetting, the proof: receipts, and looking for what they say is gone.

-- _unreachable: what memdb cannot delete, and what to do about it.
create or replace function memdb._unreachable ()
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select jsonb_build_array(
    'backups and dumps made before: delete or expire them',
    'write-ahead log in archives, and what lagging replicas have still to replay',
    'log files of the server and of applications, where statements or texts are logged',
    'free space inside the data files until it is used again: VACUUM (FULL) rewrites them',
    'what was sent to model endpoints and to those who recalled it before');
end;
comment on function memdb._unreachable () is 'What memdb cannot delete, and what to do about it.';

-- erasure_receipts: what was forgotten, when, by whom and why, newest first.
--
-- p_receipt null lists up to p_limit (1 to 1,000). While an erasure runs target is as asked; once it is
-- done, names and ids are hashed with the salt of the receipt. counts are rows deleted (of model_call:
-- emptied) by table, kept what stays for other reasons, unreachable what memdb cannot delete; cold_files
-- those that have still to be written anew (memdb cold, or Memory.forget, does it). Operators only. Raises MD001, MD301, MD303.
create or replace function memdb.erasure_receipts (
  p_tenant  integer,
  p_receipt bigint  default null,
  p_limit   integer default 100
)
  returns table (
    receipt_id bigint, state text, remaining bigint, target jsonb, reason text, actor text, requested_at timestamptz,
    finished_at timestamptz, counts jsonb, kept jsonb, cold_files bigint, unreachable jsonb)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  perform memdb._check_limit(p_limit, 1000);
  return query
    select r.receipt_id, r.state, case when r.state = 'done' then 0 else memdb._count_listed(p_tenant, r.receipt_id) end,
           r.target - 'own_sessions', r.reason, r.actor, r.requested_at, r.finished_at, r.counts, r.kept,
           (select count(*) from memdb.cold_file f where f.tenant_id = p_tenant and f.has_erased), memdb._unreachable()
      from memdb.erasure_receipt r
     where r.tenant_id = p_tenant and (p_receipt is null or r.receipt_id = p_receipt)
     order by r.receipt_id desc
     limit p_limit;
end $$;
comment on function memdb.erasure_receipts (integer, bigint, integer) is 'What was forgotten, when, by whom and why, newest first.';

-- _id_columns: every column of memdb that holds ids of events, memories, sessions or entities; arrays of them too.
--
-- Asked of the catalog by name and type, so that a table that comes later is looked through as well.
create or replace function memdb._id_columns ()
  returns table (table_name text, column_name text, subject text, is_array boolean)
  language sql stable rows 50
begin atomic
  select c.relname::text, a.attname::text, s.subject, a.atttypid = 'bigint[]'::regtype
    from pg_catalog.pg_class c
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     and a.atttypid in ('bigint'::regtype, 'bigint[]'::regtype)
    cross join lateral (
      select case when a.attname ~ '(^|_)(memory_ids?|conclusion_id|used_ids)$' then 'memory'
                  when a.attname ~ '(^|_)event_ids?$' then 'event'
                  when a.attname ~ '(^|_)session_id$' then 'session'
                  when a.attname ~ '(^|_)(entity_id|merged_into)$' then 'entity' end) s (subject)
   where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and s.subject is not null
     and exists (select from pg_catalog.pg_attribute t where t.attrelid = c.oid and t.attname = 'tenant_id' and not t.attisdropped)
   order by 1, 2;
end;
comment on function memdb._id_columns () is 'Every column of memdb that holds ids of events, memories, sessions or entities; arrays of them too.';

-- verify_erasure: look everywhere for what a receipt says is gone; no rows means it is.
--
-- Every column of every table that holds ids of events, memories, sessions or entities is read, each id
-- hashed with the salt of the receipt and looked up; so are beliefs, things still listed, and cold
-- files not written anew. One row for each place where anything remains, with how many. Operators
-- only. Raises MD001 for an unknown receipt, MD301, MD303. Cost: reads every id of the tenant, a
-- microsecond or two each.
create or replace function memdb.verify_erasure (
  p_tenant  integer,
  p_receipt bigint
)
  returns table (place text, remains bigint)
  language plpgsql stable security definer rows 5
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_salt   bytea;
  v_column record;
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  select r.salt into v_salt from memdb.erasure_receipt r where r.tenant_id = p_tenant and r.receipt_id = p_receipt;
  if v_salt is null then
    perform memdb._raise('MD001', 'no such receipt', jsonb_build_object('receipt', p_receipt), 'memdb.erasure_receipts lists them.');
  end if;
  for v_column in
    select c.table_name || '.' || c.column_name as name, format(
      'select count(*) from (select %s as id from memdb.%I t where t.tenant_id = $1) u'
      ' join memdb.erasure_hash h on h.tenant_id = $1 and h.receipt_id = $2'
      ' and h.hash = memdb._erasure_hash($3, %L, u.id::text)',
      case when c.is_array then format('unnest(t.%I)', c.column_name) else format('t.%I', c.column_name) end,
      c.table_name, c.subject) as query
      from memdb._id_columns() c
    union all
    select format('belief.%s', w.name), format(
      'select count(*) from memdb.belief t join memdb.erasure_hash h on h.tenant_id = $1 and h.receipt_id = $2'
      ' and h.hash = memdb._erasure_hash($3, t.%s, t.%s_id::text) where t.tenant_id = $1', w.name, w.name)
      from (values ('subject'), ('root')) w (name)
    union all
    select 'erasure_item', 'select count(*) from memdb.erasure_item i where i.tenant_id = $1 and i.receipt_id = $2 and $3 is not null'
    union all
    select 'cold files not written anew',
           'select count(*) from memdb.cold_file f where f.tenant_id = $1 and f.has_erased and $2 > 0 and $3 is not null'
  loop
    execute v_column.query using p_tenant, p_receipt, v_salt into remains;
    place := v_column.name;
    if remains > 0 then
      return next;
    end if;
  end loop;
end $$;
comment on function memdb.verify_erasure (integer, bigint) is 'Look everywhere for what a receipt says is gone; no rows means it is.';
