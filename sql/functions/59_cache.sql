-- The cache of recalls: an answer is given again while nothing it depends on was written since.
--
-- What is kept are ids and numbers, never words: recall joins those under the caller's own row security,
-- as always. An answer is kept with the snapshot it was found in. Each transaction that writes
-- leaves its number with the namespaces it wrote to (triggers, there only while the cache is
-- on); an answer holds while its snapshot had seen every one of these. A writer that has not
-- committed is seen by nobody, and its number neither. No counter that writers would queue up for.
-- Off by default: it costs each write, and pays only where the same is asked again and again.

-- _cache_is_on: whether recalls are kept.
create or replace function memdb._cache_is_on ()
  returns boolean
  language sql stable
begin atomic
  select exists (select from memdb.schema_info s where s.key = 'recall_cache' and s.value = 'on');
end;
comment on function memdb._cache_is_on () is 'Whether recalls are kept.';

-- _note_write: leave the number of this transaction with the namespaces it writes to; 0 is all of a tenant.
create or replace function memdb._note_write ()
  returns trigger
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  if tg_nargs > 0 then
    insert into memdb.scope_write (tenant_id, namespace_id, xid)
      select distinct c.tenant_id, 0, pg_current_xact_id() from changed c
      on conflict do nothing;
  else
    insert into memdb.scope_write (tenant_id, namespace_id, xid)
      select distinct c.tenant_id, c.namespace_id, pg_current_xact_id() from changed c
      on conflict do nothing;
  end if;
  return null;
end $$;
comment on function memdb._note_write () is 'Leave the number of this transaction with the namespaces it writes to; 0 is all of a tenant.';

-- _cache_watches: the tables a recall depends on, and whether by tenant only.
create or replace function memdb._cache_watches ()
  returns table (name text, is_tenant_wide boolean)
  language sql immutable parallel safe rows 20
begin atomic
  select w.name, w.is_tenant_wide
    from (values ('memory', false), ('memory_version', false), ('event', false), ('extraction', false), ('belief', false),
                 ('embedding', false), ('embedding_cold', false), ('edge', false), ('premise', false), ('justification', false), ('mention', false),
                 ('entity_alias', false), ('memory_topic', false), ('namespace_stat', false),
                 ('namespace', true), ('agent_grant', true), ('policy', true), ('embedding_model', true), ('entity', true)) w (name, is_tenant_wide);
end;
comment on function memdb._cache_watches () is 'The tables a recall depends on, and whether by tenant only.';

-- switch_recall_cache: keep answers of recall, or no longer; whether that is a change.
--
-- On, each statement that writes notes it once (a few hundredths of a millisecond), and recall looks its
-- question up first; off, nothing of it is left. Waits for writers of the tables in use. Operators
-- only (MD303). Raises MD001. health tells the share of recalls that were answered from it.
create or replace function memdb.switch_recall_cache (p_on boolean)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_watch record;
begin
  perform memdb._require_operator();
  if p_on is null then
    perform memdb._raise('MD001', 'the cache is switched on or off', jsonb_build_object('field', 'on'), 'Pass true or false.');
  end if;
  -- 1835363427 is "memc". Two at once would make the triggers twice.
  perform pg_advisory_xact_lock(1835363427, 0);
  if p_on = memdb._cache_is_on() then
    return false;
  end if;
  for v_watch in
    select w.name, w.is_tenant_wide, o.operation, o.rows
      from memdb._cache_watches() w
      cross join (values ('insert', 'new'), ('update', 'new'), ('delete', 'old')) o (operation, rows)
  loop
    if p_on then
      execute format('create trigger recall_cache_%2$s after %2$s on memdb.%1$I referencing %3$s table as changed'
        || ' for each statement execute function memdb._note_write(%4$s)',
        v_watch.name, v_watch.operation, v_watch.rows, case when v_watch.is_tenant_wide then '''tenant''' else '' end);
    else
      execute format('drop trigger if exists recall_cache_%2$s on memdb.%1$I', v_watch.name, v_watch.operation);
    end if;
  end loop;
  delete from memdb.recall_cache;
  delete from memdb.scope_write;
  insert into memdb.schema_info as s (key, value) values ('recall_cache', case when p_on then 'on' else 'off' end)
    on conflict (key) do update set value = excluded.value;
  return true;
end $$;
comment on function memdb.switch_recall_cache (boolean) is 'Keep answers of recall, or no longer; whether that is a change.';

-- _cache_key: the hash of all that an answer depends on besides what is stored: caller, namespaces, question, day and time zone.
create or replace function memdb._cache_key (p_namespaces integer[], p_arguments jsonb)
  returns bytea
  language sql stable
begin atomic
  select sha256(convert_to(jsonb_build_array(memdb._caller(), p_namespaces, p_arguments, memdb.current_time()::date,
                                             current_setting('TimeZone'))::text, 'UTF8'));
end;
comment on function memdb._cache_key (integer[], jsonb) is 'The hash of all that an answer depends on besides what is stored: caller, namespaces, question, day and time zone.';

-- _cached_hits: the answer kept under a key, if it still holds; null if not.
--
-- Kept ones hold for ten minutes at most.
create or replace function memdb._cached_hits (p_tenant integer, p_key bytea)
  returns memdb._recall_hit[]
  language sql stable
begin atomic
  select c.hits
    from memdb.recall_cache c
   where c.tenant_id = p_tenant and c.cache_key = p_key and c.stored_at > memdb.current_time() - interval '10 minutes'
     and not exists (select from memdb.scope_write w
                      where w.tenant_id = p_tenant
                        and (w.namespace_id = 0 or c.namespace_ids is null or w.namespace_id = any (c.namespace_ids))
                        and not pg_visible_in_snapshot(w.xid, c.snapshot));
end;
comment on function memdb._cached_hits (integer, bytea) is 'The answer kept under a key, if it still holds; null if not.';

-- _cache_is_usable: whether this transaction may take answers from the cache and keep them there.
--
-- Not one that has written (it sees what others must not), keeps an old snapshot or may only read; and not on a standby.
-- Takes the lock under which trim_recall_cache may not forget writers, while an answer is being found and kept.
create or replace function memdb._cache_is_usable (p_tenant integer)
  returns boolean
  language plpgsql volatile
as $$
begin
  return memdb._cache_is_on() and not pg_is_in_recovery() and pg_current_xact_id_if_assigned() is null
    and current_setting('transaction_isolation') = 'read committed' and current_setting('transaction_read_only') = 'off'
    and pg_try_advisory_xact_lock_shared(1835363427, p_tenant);
end $$;
comment on function memdb._cache_is_usable (integer) is 'Whether this transaction may take answers from the cache and keep them there.';

-- _keep_answer: keep an answer with the snapshot it was found in.
--
-- Nobody waits for another who keeps the same answer in a transaction that is still open.
create or replace function memdb._keep_answer (
  p_tenant integer, p_key bytea, p_namespaces integer[], p_snapshot pg_snapshot, p_hits memdb._recall_hit[])
  returns void
  language plpgsql volatile
as $$
begin
  if pg_try_advisory_xact_lock(hashtextextended(encode(p_key, 'hex'), p_tenant)) then
    begin
      insert into memdb.recall_cache as r (tenant_id, cache_key, namespace_ids, snapshot, hits)
        values (p_tenant, p_key, p_namespaces, p_snapshot, p_hits)
        on conflict on constraint recall_cache_pkey
        do update set namespace_ids = excluded.namespace_ids, snapshot = excluded.snapshot, hits = excluded.hits, stored_at = excluded.stored_at;
    exception when disk_full then null;
    end;
  end if;
end $$;
comment on function memdb._keep_answer (integer, bytea, integer[], pg_snapshot, memdb._recall_hit[]) is 'Keep an answer with the snapshot it was found in.';

-- _kept_expansion: what a walk from some memories finds, as JSON rows of ids, from the cache where it holds; null where there is none to use.
--
-- p_walk is reasons (_support_rows) or related (_related_rows), p_arguments what it is called with. Kept are walks of 1,000 rows
-- at most. A walk may lead anywhere in the tenant, so every write to it ends what is kept. memdb.expansion says "kept" after a hit. A database whose cache
-- was switched on before justifications were watched keeps none, until it is switched off and on.
create or replace function memdb._kept_expansion (p_tenant integer, p_walk text, p_arguments jsonb, p_agent text default null)
  returns jsonb
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_key   bytea;
  v_hits  memdb._recall_hit[];
  v_found record;
begin
  perform memdb._authorize(p_tenant, false);
  perform set_config('memdb.expansion', '', true);
  if not memdb._cache_is_usable(p_tenant)
     or not exists (select from pg_trigger t where t.tgrelid = 'memdb.justification'::regclass and t.tgname = 'recall_cache_update') then
    return null;
  end if;
  v_key := memdb._cache_key(memdb._readable(p_tenant, null, p_agent), jsonb_build_array(p_walk, p_agent, p_arguments));
  v_hits := memdb._cached_hits(p_tenant, v_key);
  if v_hits is not null then
    perform set_config('memdb.expansion', 'kept', true);
    return v_hits[1].legs;
  end if;
  -- One statement: the snapshot kept is the one the answer was found in.
  if p_walk = 'reasons' then
    select coalesce(jsonb_agg(to_jsonb(s) order by s.place), '[]') as rows, pg_current_snapshot() as snapshot into v_found
      from memdb._support_rows(p_tenant, memdb._bigints(p_arguments -> 0), memdb._bigints(p_arguments -> 1)::integer[], p_agent,
             (p_arguments ->> 2)::timestamptz)
           with ordinality s (hit_id, depth, conclusion_id, conclusion_version, justification_id, ordinal, method,
                              is_hidden, is_cut, event_id, span_from, span_to, memory_id, memory_version, place);
  else
    select coalesce(jsonb_agg(to_jsonb(s) order by s.place), '[]') as rows, pg_current_snapshot() as snapshot into v_found
      from memdb._related_rows(p_tenant, memdb._bigints(p_arguments -> 0), (p_arguments ->> 1)::integer, (p_arguments ->> 2)::real,
             case when jsonb_typeof(p_arguments -> 3) = 'array' then array(select jsonb_array_elements_text(p_arguments -> 3)) end,
             (p_arguments ->> 4)::integer)
           with ordinality s (memory_id, hops, weight, path, place);
  end if;
  if jsonb_array_length(v_found.rows) <= 1000 then
    perform memdb._keep_answer(p_tenant, v_key, null, v_found.snapshot,
      array[row(null, null, null, null, v_found.rows)::memdb._recall_hit]);
  end if;
  return v_found.rows;
end $$;
comment on function memdb._kept_expansion (integer, text, jsonb, text) is 'What a walk from some memories finds, as JSON rows of ids, from the cache where it holds; null where there is none to use.';

-- _bigints: the numbers of a JSON array; null where it is none.
create or replace function memdb._bigints (p_numbers jsonb)
  returns bigint[]
  language sql immutable parallel safe
begin atomic
  select case when jsonb_typeof(p_numbers) = 'array' then array(select n.n::bigint from jsonb_array_elements_text(p_numbers) n (n)) end;
end;
comment on function memdb._bigints (jsonb) is 'The numbers of a JSON array; null where it is none.';

-- _cached_candidates: what _recall_candidates gives, from the cache where it holds.
--
-- Past the cache goes what has a budget or asks for more than 200, and where _cache_is_usable does not allow it.
create or replace function memdb._cached_candidates (
  p_tenant     integer,
  p_query      text,
  p_vector     real[],
  p_namespaces text[],
  p_user       text,
  p_agent      text,
  p_session    text,
  p_types      text[],
  p_k          integer,
  p_legs       text[],
  p_hops       integer,
  p_include    text[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_budget_ms  integer,
  p_tiers      text[],
  p_from       timestamptz,
  p_to         timestamptz,
  p_entities   text[],
  p_topic      bigint,
  p_metadata   jsonb,
  p_expand     text,
  p_offset     integer,
  p_factors    jsonb
)
  returns table (memory_id bigint, version integer, event_id bigint, score real, legs jsonb)
  language plpgsql volatile security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_uses_it    boolean;
  v_namespaces integer[];
  v_key        bytea;
  v_found      record;
  v_hits       memdb._recall_hit[];
begin
  perform memdb._authorize(p_tenant, false);
  v_uses_it := p_budget_ms is null and p_k + p_offset <= 200 and memdb._cache_is_usable(p_tenant);
  if v_uses_it is not true then
    return query
      select c.* from memdb._recall_candidates(p_tenant, p_query, p_vector, p_namespaces, p_user, p_agent, p_session, p_types, p_k,
        p_legs, p_hops, p_include, p_belief_at, p_world_at, p_budget_ms, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata,
        p_expand, p_offset, p_factors) c;
    return;
  end if;
  v_namespaces := memdb._readable(p_tenant, p_namespaces, p_agent);
  v_key := memdb._cache_key(v_namespaces, jsonb_build_array(p_query, p_vector, p_user, p_agent, p_session, p_types, p_k, p_legs,
    p_hops, p_include, p_belief_at, p_world_at, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata, p_offset, p_factors,
    cardinality(p_namespaces) = 1));
  v_hits := memdb._cached_hits(p_tenant, v_key);
  if v_hits is not null then
    return query
      select h.memory_id, h.version, h.event_id, h.score,
             case when h.score is null then '{"cached": true, "legs": {}, "skipped": []}'::jsonb else h.legs end
        from unnest(v_hits) h;
    return;
  end if;
  -- One statement: the snapshot kept is the one the answer was found in.
  select array_agg(row(c.memory_id, c.version, c.event_id, c.score, c.legs)::memdb._recall_hit) as hits, pg_current_snapshot() as snapshot
    into v_found
    from memdb._recall_candidates(p_tenant, p_query, p_vector, p_namespaces, p_user, p_agent, p_session, p_types, p_k, p_legs, p_hops,
           p_include, p_belief_at, p_world_at, p_budget_ms, p_tiers, p_from, p_to, p_entities, p_topic, p_metadata, p_expand, p_offset,
           p_factors) c;
  perform memdb._keep_answer(p_tenant, v_key, v_namespaces, v_found.snapshot, coalesce(v_found.hits, '{}'));
  return query select h.* from unnest(v_found.hits) h;
end $$;
comment on function memdb._cached_candidates (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb, text, integer, jsonb) is 'What _recall_candidates gives, from the cache where it holds.';

-- trim_recall_cache: forget answers that no longer hold and writers that no answer can have missed, one bounded step.
--
-- Takes up to p_limit (1 to 100,000) of each. Returns how many expired answers are left, and writers if no recall is
-- under way, counted up to 10,000: call again until 0. Raises MD001, MD301.
create or replace function memdb.trim_recall_cache (p_tenant integer, p_limit integer default 10000)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_seen xid8;
  v_left integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 100000);
  delete from memdb.recall_cache c
   where c.tenant_id = p_tenant
     and c.ctid = any (array(select o.ctid from memdb.recall_cache o
                              where o.tenant_id = p_tenant and o.stored_at <= memdb.current_time() - interval '10 minutes'
                              order by o.stored_at limit p_limit for update skip locked));
  select count(*) into v_left
    from (select from memdb.recall_cache c
           where c.tenant_id = p_tenant and c.stored_at <= memdb.current_time() - interval '10 minutes' limit 10000) w;
  -- A recall under way may keep an answer whose snapshot is older than all that are kept now.
  if pg_try_advisory_xact_lock(1835363427, p_tenant) then
    select min(pg_snapshot_xmin(c.snapshot)::text::bigint)::text::xid8 into v_seen from memdb.recall_cache c where c.tenant_id = p_tenant;
    delete from memdb.scope_write w
     where w.tenant_id = p_tenant
       and w.ctid = any (array(select o.ctid from memdb.scope_write o
                                where o.tenant_id = p_tenant and (v_seen is null or o.xid < v_seen) limit p_limit));
    v_left := v_left + (select count(*) from (select from memdb.scope_write o
                         where o.tenant_id = p_tenant and (v_seen is null or o.xid < v_seen) limit 10000) w);
  end if;
  return least(v_left, 10000);
end $$;
comment on function memdb.trim_recall_cache (integer, integer) is 'Forget answers that no longer hold and writers that no answer can have missed, one bounded step.';
