-- Keywords: the words a version is found by are written with it, and written anew where the rules changed.

-- _set_keyword: write the words of a new version, or of one that says something else now.
create or replace function memdb._set_keyword ()
  returns trigger
  language plpgsql volatile
as $$
begin
  new.keyword := memdb.keyword_text_v2(new.text, new.heading, new.language,
    memdb.scope_lexemes_v1(new.tenant_id, new.namespace_id, new.user_id));
  return new;
end $$;
comment on function memdb._set_keyword () is 'Write the words of a new version, or of one that says something else now.';

-- Only where it is missing: creating it waits for writers, and would with every upgrade.
do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'memdb.memory_version'::regclass and t.tgname = 'memory_version_keyword') then
    create trigger memory_version_keyword
      before insert or update of tenant_id, namespace_id, user_id, text, heading, language on memdb.memory_version
      for each row execute function memdb._set_keyword();
    -- Also for rows of a bulk load or a replica, as a generated column is.
    alter table memdb.memory_version enable always trigger memory_version_keyword;
  end if;
end $$;

-- _renew_keywords: after a change of the rules, write the words of the next memories anew, one bounded step.
--
-- Looks at all versions of up to p_limit memories, in order of their ids, and stops after those with which a million bytes
-- of text are reached: one of 60,000 characters takes as long as hundreds of sentences. A row whose words are the same by the new
-- rules is left alone. The statistics follow through their queue. Until then a memory is found by its old
-- words. Returns how many memories are left, counted up to 10,000. The caller asked who is calling. Cost: as
-- much as recording the words of these memories.
create or replace function memdb._renew_keywords (p_tenant integer, p_limit integer)
  returns integer
  language plpgsql volatile
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole, for each memory.
  set enable_seqscan = off
as $$
declare
  v_from     bigint;
  v_left     integer;
  v_seen     bigint[];
  v_ids      bigint[];
  v_versions integer[];
  v_keywords tsvector[];
begin
  select r.memory_id into v_from from memdb.keyword_renewal r where r.tenant_id = p_tenant for update skip locked;
  if not found then
    return 0;
  end if;
  -- The folder of the keyword statistics ("melk"): words are moved in its queue.
  perform pg_advisory_xact_lock(1835363435, p_tenant);
  v_seen := array(
    select s.memory_id
      from (select m.memory_id, sum(b.bytes) over (order by m.memory_id) - b.bytes as bytes_before
              from (select m.memory_id from memdb.memory m
                     where m.tenant_id = p_tenant and m.memory_id > v_from order by m.memory_id limit p_limit) m
              cross join lateral (
                select coalesce(sum(octet_length(v.text)), 0) as bytes from memdb.memory_version v
                 where v.tenant_id = p_tenant and v.memory_id = m.memory_id) b) s
     where s.bytes_before < 1000000
     order by s.memory_id);
  perform from memdb.memory_version v where v.tenant_id = p_tenant and v.memory_id = any (v_seen)
    order by v.memory_id, v.version for no key update;
  -- Places of words are not searched: the same words in other places are no change.
  select coalesce(array_agg(v.memory_id), '{}'), coalesce(array_agg(v.version), '{}'), coalesce(array_agg(n.keyword), '{}')
    into v_ids, v_versions, v_keywords
    from memdb.memory_version v
    cross join lateral (
      select memdb.keyword_text_v2(v.text, v.heading, v.language,
               memdb.scope_lexemes_v1(v.tenant_id, v.namespace_id, v.user_id)) as keyword
      offset 0) n
   where v.tenant_id = p_tenant and v.memory_id = any (v_seen)
     and tsvector_to_array(v.keyword) <> tsvector_to_array(n.keyword);
  perform memdb._withdraw_words(p_tenant, v_ids, v_versions);
  update memdb.memory_version v set keyword = w.keyword
    from unnest(v_ids, v_versions, v_keywords) w (memory_id, version, keyword)
   where v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version;
  insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select p_tenant, v.namespace_id, v.memory_id, v.version
      from unnest(v_ids, v_versions) w (memory_id, version)
      join memdb.memory_version v
        on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version and v.retired_at is null;
  v_from := coalesce(v_seen[cardinality(v_seen)], v_from);
  v_left := (select count(*) from (select from memdb.memory m
                                    where m.tenant_id = p_tenant and m.memory_id > v_from limit 10000) w);
  if v_left = 0 then
    delete from memdb.keyword_renewal r where r.tenant_id = p_tenant;
  else
    update memdb.keyword_renewal r set memory_id = v_from where r.tenant_id = p_tenant;
  end if;
  return v_left;
end $$;
comment on function memdb._renew_keywords (integer, integer) is 'After a change of the rules, write the words of the next memories anew, one bounded step.';
