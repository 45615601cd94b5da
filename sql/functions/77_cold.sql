-- Cold: words of archived memories in files; the row keeps its id, its beginning (or summary), edges and a pointer.
--
-- SQL hands out rows and notes where they went; files are written and read outside (memdb/cold.py), as
-- compressed JSON lines with a checksum. Every line is checked again by its content hash when it
-- comes back. What is forgotten meanwhile is taken out of its file (cold_files says which).

-- _cold_stub: what a row keeps of a text that lies in a file: its summary, or its beginning.
create or replace function memdb._cold_stub (p_text text, p_summary text)
  returns text
  language sql immutable parallel safe
begin atomic
  select coalesce(nullif(p_summary, ''), case when char_length(p_text) > 80 then left(p_text, 80) || '…' else p_text end);
end;
comment on function memdb._cold_stub (text, text) is 'What a row keeps of a text that lies in a file: its summary, or its beginning.';

-- export_cold: archived versions of a namespace and month that lie in no file yet, as lines for one.
--
-- By memory and version beyond p_after (a memory id), whole memories, at most about p_limit lines (1 to
-- 10,000). A memory belongs to the month (UTC) it happened in; p_month is any day of it. Each line
-- holds memory_id, version, text, metadata and the hash of the text. Nothing is changed: write the lines,
-- then register_cold_file. Operators only. Raises MD001, MD102, MD301, MD303.
create or replace function memdb.export_cold (
  p_tenant    integer,
  p_namespace text,
  p_month     date,
  p_after     bigint  default 0,
  p_limit     integer default 5000
)
  returns table (memory_id bigint, version integer, line jsonb)
  language plpgsql stable security definer rows 1000
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespace integer;
  v_from      timestamptz := date_trunc('month', p_month::timestamp) at time zone 'UTC';
  v_to        timestamptz := (date_trunc('month', p_month::timestamp) + interval '1 month') at time zone 'UTC';
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  perform memdb._check_limit(p_limit, 10000);
  v_namespace := (memdb._readable(p_tenant, array[p_namespace], null))[1];
  return query
    select v.memory_id, v.version, jsonb_build_object('memory_id', v.memory_id, 'version', v.version, 'text', v.text,
             'metadata', v.metadata, 'hash', encode(memdb._content_hash(v.text), 'hex'))
      from (select m.memory_id from memdb.shown_memory m
             where m.tenant_id = p_tenant and m.namespace_id = v_namespace and m.occurred_at >= v_from and m.occurred_at < v_to
               and m.tier = 'archive' and m.memory_id > p_after
               and exists (select from memdb.shown_memory_version w where w.tenant_id = p_tenant and w.memory_id = m.memory_id
                              and w.cold_file_id is null)
             order by m.memory_id limit p_limit) k
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = k.memory_id and v.cold_file_id is null
     order by v.memory_id, v.version;
end $$;
comment on function memdb.export_cold (integer, text, date, bigint, integer) is 'Archived versions of a namespace and month that lie in no file yet, as lines for one.';

-- _reword: give versions other words, with what is counted of them.
--
-- p_lines: [{memory_id, version, text, metadata}]; p_file null where the words are back in the row.
create or replace function memdb._reword (p_tenant integer, p_lines jsonb, p_file bigint)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_ids      bigint[];
  v_versions integer[];
begin
  select coalesce(array_agg(r.memory_id), '{}'), coalesce(array_agg(r.version), '{}') into v_ids, v_versions
    from jsonb_to_recordset(p_lines) r (memory_id bigint, version integer);
  -- The folder of the keyword statistics ("melk"): words are moved in its queue.
  perform pg_advisory_xact_lock(1835363435, p_tenant);
  perform memdb._withdraw_words(p_tenant, v_ids, v_versions);
  update memdb.memory_version v
     set text = r.text, metadata = r.metadata, cold_file_id = p_file,
         cold_hash = case when p_file is not null then memdb._content_hash(v.text) end
    from jsonb_to_recordset(p_lines) r (memory_id bigint, version integer, text text, metadata jsonb)
   where v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version;
  insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select p_tenant, v.namespace_id, v.memory_id, v.version
      from unnest(v_ids, v_versions) w (memory_id, version)
      join memdb.memory_version v
        on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version and v.retired_at is null;
  return cardinality(v_ids);
end $$;
comment on function memdb._reword (integer, jsonb, bigint) is 'Give versions other words, with what is counted of them.';

-- register_cold_file: note that a file holds the words of archived versions; the rows keep their beginning and a pointer.
--
-- p_versions: [{memory_id, version, hash}] as export_cold gave them, up to 10,000; what is no longer archived,
-- was forgotten or has other words by now is left as it is. The file must be safe on disk before.
-- p_sha256: the hash of the whole file, hex. Returns the file and how many versions point to it. Operators
-- only. Raises MD001, MD102, MD301, MD303.
create or replace function memdb.register_cold_file (
  p_tenant    integer,
  p_namespace text,
  p_month     date,
  p_name      text,
  p_sha256    text,
  p_bytes     bigint,
  p_versions  jsonb
)
  returns table (file_id bigint, versions bigint)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespace integer;
  v_lines     jsonb;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._check_items(p_versions, array['memory_id', 'version', 'hash'], array['memory_id', 'version', 'hash']);
  v_namespace := (memdb._readable(p_tenant, array[p_namespace], null))[1];
  insert into memdb.cold_file as f (tenant_id, namespace_id, month, name, sha256, bytes, versions, exported_at)
    values (p_tenant, v_namespace, date_trunc('month', p_month::timestamp)::date, p_name, decode(p_sha256, 'hex'), p_bytes, 0,
            memdb.current_time())
    returning f.file_id into file_id;
  select coalesce(jsonb_agg(jsonb_build_object('memory_id', l.memory_id, 'version', l.version, 'text', l.stub, 'metadata', '{}'::jsonb)), '[]')
    into v_lines
    from (select v.memory_id, v.version, memdb._cold_stub(v.text, v.summary) as stub
            from jsonb_to_recordset(p_versions) r (memory_id bigint, version integer, hash text)
            join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = r.memory_id and m.namespace_id = v_namespace
             and m.tier = 'archive'
            join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version
             and v.cold_file_id is null and encode(memdb._content_hash(v.text), 'hex') = r.hash
           order by v.memory_id, v.version
             for no key update of m) l;
  versions := memdb._reword(p_tenant, v_lines, file_id);
  update memdb.cold_file f set versions = register_cold_file.versions
   where f.tenant_id = p_tenant and f.file_id = register_cold_file.file_id;
  return next;
exception when check_violation or unique_violation or invalid_parameter_value or not_null_violation then
  perform memdb._raise('MD001', 'a file has a name of its own and a SHA-256 in hex', jsonb_build_object('field', 'name or sha256'));
end $$;
comment on function memdb.register_cold_file (integer, text, date, text, text, bigint, jsonb) is 'Note that a file holds the words of archived versions; the rows keep their beginning and a pointer.';

-- cold_files: the files that hold words of archived memories, oldest first.
--
-- sha256 is that of the whole file, in hex. has_erased: it still holds words that were forgotten, and is
-- to be written anew without them. Operators only. Raises MD301, MD303.
create or replace function memdb.cold_files (p_tenant integer)
  returns table (file_id bigint, namespace text, month date, name text, sha256 text, bytes bigint, versions bigint, has_erased boolean)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  return query
    select f.file_id, n.path, f.month, f.name, encode(f.sha256, 'hex'), f.bytes,
           (select count(*) from memdb.memory_version v where v.tenant_id = p_tenant and v.cold_file_id = f.file_id), f.has_erased
      from memdb.cold_file f
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = f.namespace_id
     where f.tenant_id = p_tenant
     order by f.file_id;
end $$;
comment on function memdb.cold_files (integer) is 'The files that hold words of archived memories, oldest first.';

-- cold_versions: which versions of some memories have their words in a file, and in which.
--
-- p_memory_ids null: all versions in file p_file. hash is that of the words, sha256 that of the file. Only
-- memories the caller may read. Raises MD301.
create or replace function memdb.cold_versions (p_tenant integer, p_memory_ids bigint[] default null, p_file bigint default null)
  returns table (memory_id bigint, version integer, hash text, file_id bigint, name text, sha256 text)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_scope := memdb._readable(p_tenant, null, null);
  return query
    select v.memory_id, v.version, encode(v.cold_hash, 'hex'), f.file_id, f.name, encode(f.sha256, 'hex')
      from memdb.cold_file f
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.cold_file_id = f.file_id
     where f.tenant_id = p_tenant and (p_file is null or f.file_id = p_file) and num_nonnulls(p_memory_ids, p_file) > 0
       and (p_memory_ids is null or v.memory_id = any (p_memory_ids)) and (v_scope is null or v.namespace_id = any (v_scope))
     order by v.memory_id, v.version;
end $$;
comment on function memdb.cold_versions (integer, bigint[], bigint) is 'Which versions of some memories have their words in a file, and in which.';

-- restore_cold: put words from a file back into their rows, checked.
--
-- p_lines: [{memory_id, version, text, metadata}] as they stand in the file, up to 10,000; lines of what
-- was forgotten or is back already are passed over. Returns how many came back; a file nothing points to any
-- more is off the list, and may be deleted. Operators only. Raises MD001, MD301, MD303; MD406 with the
-- index where words are not those that went into the file: nothing is changed then.
create or replace function memdb.restore_cold (p_tenant integer, p_file bigint, p_lines jsonb)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_bad   record;
  v_lines jsonb;
  v_back  bigint;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._check_items(p_lines, array['memory_id', 'version', 'text', 'metadata', 'hash'], array['memory_id', 'version', 'text']);
  select r.place - 1 as index, r.memory_id into v_bad
    from rows from (jsonb_to_recordset(p_lines) as (memory_id bigint, version integer, text text))
         with ordinality as r (memory_id, version, text, place)
    join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version
     and v.cold_file_id = p_file
   where v.cold_hash <> memdb._content_hash(r.text)
   order by r.place limit 1;
  if found then
    perform memdb._raise('MD406', 'words in the file are not those that were stored', jsonb_build_object(
      'index', v_bad.index, 'memory_id', v_bad.memory_id), 'Take the file from a backup; memdb cold verify names what is wrong.');
  end if;
  select coalesce(jsonb_agg(jsonb_build_object('memory_id', r.memory_id, 'version', r.version, 'text', r.text,
                                               'metadata', coalesce(r.metadata, '{}'))), '[]')
    into v_lines
    from jsonb_to_recordset(p_lines) r (memory_id bigint, version integer, text text, metadata jsonb)
    join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = r.memory_id and v.version = r.version
     and v.cold_file_id = p_file;
  v_back := memdb._reword(p_tenant, v_lines, null);
  delete from memdb.cold_file f
   where f.tenant_id = p_tenant and f.file_id = p_file
     and not exists (select from memdb.memory_version v where v.tenant_id = p_tenant and v.cold_file_id = p_file);
  return v_back;
end $$;
comment on function memdb.restore_cold (integer, bigint, jsonb) is 'Put words from a file back into their rows, checked.';

-- replace_cold_file: note that a file was written anew without what was forgotten; null as p_name: it was deleted, empty.
--
-- Returns whether the file is on the list. Operators only. Raises MD001 (versions still point to a deleted
-- file), MD301, MD303.
create or replace function memdb.replace_cold_file (
  p_tenant integer,
  p_file   bigint,
  p_name   text   default null,
  p_sha256 text   default null,
  p_bytes  bigint default null
)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  if p_name is null then
    delete from memdb.cold_file f where f.tenant_id = p_tenant and f.file_id = p_file;
  else
    update memdb.cold_file f set name = p_name, sha256 = decode(p_sha256, 'hex'), bytes = p_bytes, has_erased = false
     where f.tenant_id = p_tenant and f.file_id = p_file;
  end if;
  return found;
exception when check_violation or unique_violation or foreign_key_violation or invalid_parameter_value or not_null_violation then
  perform memdb._raise('MD001', 'a file has a name of its own and a SHA-256 in hex, and nothing points to a deleted one',
    jsonb_build_object('field', 'name or sha256'));
end $$;
comment on function memdb.replace_cold_file (integer, bigint, text, text, bigint) is 'Note that a file was written anew without what was forgotten; null as p_name: it was deleted, empty.';
