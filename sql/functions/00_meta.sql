-- What every other file leans on: raising typed errors, checking jsonb input, the truth lock.
--
-- How memdb reads, file by file, along the way of the data:
--   05 access    who may see what                10 event      what happened, stored first
--   20 memory    what is remembered, and why      25 entity     who and what it is about
--   30 relation  how memories hang together       36 explain    the chain down to the events
--   45 embedding vectors   48 statistics   50 recall   70.. the clock's work   90 views   99 grants

-- _raise: stop with a typed error.
--
-- p_code is an MD code (sql/README.md lists them), p_detail machine-readable (which item,
-- which field), p_hint the next step. Messages may change; codes and detail keys may not.
create or replace function memdb._raise (
  p_code    text,
  p_message text,
  p_detail  jsonb default null,
  p_hint    text  default null
)
  returns boolean
  language plpgsql volatile parallel safe
as $$
begin
  -- Messages of PostgreSQL quote the value they refuse, whatever its length.
  raise exception using errcode = p_code, message = left(p_message, 1000),
    detail = coalesce(p_detail::text, ''), hint = coalesce(p_hint, '');
end $$;
comment on function memdb._raise (text, text, jsonb, text) is 'Stop with a typed error.';

-- _check_items: refuse a batch that is not an array of objects with known keys.
--
-- p_known lists the keys an item may have, p_required those it must have (present and not null).
-- Raises MD001 with the index of the first bad item; MD003 above 10,000 items. Cost: one pass.
create or replace function memdb._check_items (
  p_items    jsonb,
  p_known    text[],
  p_required text[]
)
  returns void
  language plpgsql volatile parallel safe
as $$
declare
  v_bad record;
begin
  if p_items is null or jsonb_typeof(p_items) <> 'array' then
    perform memdb._raise('MD001', 'expected a JSON array of objects', null, 'Pass one array, also for a single item.');
  end if;
  if jsonb_array_length(p_items) > 10000 then
    perform memdb._raise('MD003', 'a batch holds at most 10,000 items', null, 'Send several smaller batches.');
  end if;
  select i.ordinal - 1 as index,
         case when jsonb_typeof(i.item) <> 'object' then 'not an object' end as broken,
         case when jsonb_typeof(i.item) = 'object' then
           (select k.key from jsonb_object_keys(i.item) k (key) where k.key <> all (p_known) limit 1) end as unknown,
         case when jsonb_typeof(i.item) = 'object' then
           (select r.key from unnest(p_required) r (key) where i.item ->> r.key is null limit 1) end as missing
    into v_bad
    from jsonb_array_elements(p_items) with ordinality i (item, ordinal)
   where case when jsonb_typeof(i.item) <> 'object' then true
              else i.item - p_known <> '{}' or not i.item ?& p_required
                   or exists (select from unnest(p_required) r (key) where i.item -> r.key = 'null') end
   order by i.ordinal
   limit 1;
  if found then
    perform memdb._raise('MD001',
      coalesce(v_bad.broken, 'unknown field "' || v_bad.unknown || '"', 'field "' || v_bad.missing || '" is required'),
      jsonb_build_object('index', v_bad.index, 'field', coalesce(v_bad.unknown, v_bad.missing)),
      'Known fields: ' || array_to_string(p_known, ', ') || '.');
  end if;
end $$;
comment on function memdb._check_items (jsonb, text[], text[]) is 'Refuse a batch that is not an array of objects with known keys.';

-- _check_plain: refuse an object or an array where a text, a number or a truth value belongs.
--
-- Otherwise ["a", "b"] would be stored as the text it is written with. p_nested lists the fields that
-- may hold either. For batches that _check_items has passed. Raises MD001 with index and field.
create or replace function memdb._check_plain (p_items jsonb, p_nested text[])
  returns void
  language plpgsql volatile parallel safe
as $$
declare
  v_bad record;
begin
  select i.place - 1 as index, f.key as field
    into v_bad
    from jsonb_array_elements(p_items) with ordinality i (item, place)
    cross join jsonb_each(i.item - p_nested) f (key, value)
   where jsonb_typeof(f.value) in ('object', 'array')
   limit 1;
  if found then
    perform memdb._raise('MD001', format('field "%s" holds an object or an array', v_bad.field),
      jsonb_build_object('index', v_bad.index, 'field', v_bad.field), 'Give a text, a number, true or false.');
  end if;
end $$;
comment on function memdb._check_plain (jsonb, text[]) is 'Refuse an object or an array where a text, a number or a truth value belongs.';

-- _is_moment: whether a time is one that can be stored: from 4500 BC to the year 200,000.
--
-- PostgreSQL's own range is a little wider, but at its ends adding an hour or turning to another
-- time zone fails, and the distance of its ends is no interval: one such time would break every
-- query that meets it.
create or replace function memdb._is_moment (p_at timestamptz)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select p_at >= to_timestamp(-204141945600) and p_at < to_timestamp(6249223180800);
end;
comment on function memdb._is_moment (timestamptz) is 'Whether a time is one that can be stored: from 4500 BC to the year 200,000.';

-- _content_hash: what makes two texts the same fact: SHA-256 over the text with white space folded, first 16 bytes.
create or replace function memdb._content_hash (p_text text)
  returns bytea
  language plpgsql immutable parallel safe
as $$
declare
  -- Plain ASCII is in normal form, and most texts have nothing to fold: a fifth of the time.
  v_text text := btrim(case when octet_length(p_text) = char_length(p_text) then p_text else normalize(p_text, nfc) end);
begin
  if v_text ~ '\s\s|[^\S ]' then
    v_text := regexp_replace(v_text, '\s+', ' ', 'g');
  end if;
  return substring(sha256(convert_to(v_text, 'UTF8')) for 16);
end $$;
comment on function memdb._content_hash (text) is 'What makes two texts the same fact: SHA-256 over the text with white space folded, first 16 bytes.';

-- _lock_truth: let recorders of a tenant run side by side, and a correction alone.
--
-- Closes the race in which a memory is recorded on an event while another transaction retracts
-- it: recorders hold the lock shared and read the state of their premises after they got it;
-- corrections hold it exclusively. Transaction level only, so it works behind PgBouncer.
-- Above read committed what is read after the lock may be older than it: see _check_snapshot.
create or replace function memdb._lock_truth (
  p_tenant    integer,
  p_exclusive boolean
)
  returns void
  language plpgsql volatile
as $$
begin
  -- 1835363444 ("melt") is the first key of every advisory lock of this purpose.
  if p_exclusive then
    perform pg_advisory_xact_lock(1835363444, p_tenant);
  else
    perform pg_advisory_xact_lock_shared(1835363444, p_tenant);
  end if;
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform memdb._check_snapshot(p_tenant, p_exclusive);
  end if;
end $$;
comment on function memdb._lock_truth (integer, boolean) is 'Let recorders of a tenant run side by side, and a correction alone.';

-- _check_snapshot: refuse to judge by a snapshot that is older than what others committed before the truth lock was got.
--
-- Repeatable read and serializable transactions see the database as it was at their first
-- statement. A recorder must not miss a correction committed since: every correction updates the
-- tenant's row, so locking that row fails with 40001 by itself. A correction must not miss a
-- memory recorded since, and recorders leave no such trace, not to wait for each other: so it goes
-- through only if no transaction at all was committed since. Raises 40001: roll back, try again.
create or replace function memdb._check_snapshot (
  p_tenant    integer,
  p_exclusive boolean
)
  returns void
  language plpgsql volatile
as $$
declare
  v_seen pg_snapshot := pg_current_snapshot();
  v_own  bigint := pg_current_xact_id()::text;
  v_next bigint;
begin
  perform from memdb.tenant t where t.tenant_id = p_tenant for share;
  if not p_exclusive then
    return;
  end if;
  begin
    -- A block of its own is a subtransaction, and takes the next free number: whoever held the
    -- truth lock before us has a lower one. Numbers in rows have 32 bits.
    update memdb.tenant t set truth_at = t.truth_at where t.tenant_id = p_tenant
    returning t.xmin::text::bigint into v_next;
  exception when invalid_transaction_state then
    raise;
  end;
  v_next := v_own + (v_next - v_own % 4294967296 + 4294967296) % 4294967296;
  if exists (
       select from (select x.xid::text::bigint from pg_snapshot_xip(v_seen) x (xid)
                    union all
                    select generate_series(pg_snapshot_xmax(v_seen)::text::bigint, v_next - 1)) w (id)
        where pg_xact_status(w.id::text::xid8) = 'committed') then
    perform memdb._raise('40001', 'others committed since this transaction began, and may rest on what it is about to change',
      null, 'Try the transaction again, or make corrections at read committed.');
  end if;
end $$;
comment on function memdb._check_snapshot (integer, boolean) is 'Refuse to judge by a snapshot that is older than what others committed before the truth lock was got.';
