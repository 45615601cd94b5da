-- Forgetting: what has other support stays, and loses what was forgotten.
--
-- A memory may say something in several versions, each for several reasons. Reasons that rest on
-- the forgotten go; a version without a reason left goes; the newest version left is then the
-- current one. What a version took from a forgotten first source (the heading with date and
-- speaker, metadata, its place in a session) it takes from the first source left.

-- _add_count: a count of rows added to those of other tables.
create or replace function memdb._add_count (p_counts jsonb, p_table text, p_rows bigint)
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select case when p_rows = 0 then p_counts
              else p_counts || jsonb_build_object(p_table, coalesce((p_counts ->> p_table)::bigint, 0) + p_rows) end;
end;
comment on function memdb._add_count (jsonb, text, bigint) is 'A count of rows added to those of other tables.';

-- _add_counts: counts of rows by table, added table by table.
create or replace function memdb._add_counts (p_counts jsonb, p_more jsonb)
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select coalesce(jsonb_object_agg(s.name, s.rows), '{}')
    from (select c.key as name, sum(c.value::bigint) as rows
            from (select * from jsonb_each_text(p_counts) union all select * from jsonb_each_text(p_more)) c
           group by c.key) s;
end;
comment on function memdb._add_counts (jsonb, jsonb) is 'Counts of rows by table, added table by table.';

-- _withdraw_words: take the words of some versions out of the keyword statistics, whether they are in already or wait.
--
-- A version that still waits to be counted leaves its words in the queue in its place: it is
-- about to be gone, or to have others. The caller holds the lock of the folder ("melk").
create or replace function memdb._withdraw_words (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
  returns void
  language sql volatile
begin atomic
  update memdb.keyword_queue q
     set memory_id = null, version = null, lexemes = tsvector_to_array(v.keyword)
    from unnest(p_memory_ids, p_versions) w (memory_id, version)
    join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version
   where q.tenant_id = p_tenant and q.memory_id = w.memory_id and q.version = w.version;
  insert into memdb.keyword_queue (tenant_id, namespace_id, lexemes, sign)
    select p_tenant, v.namespace_id, tsvector_to_array(v.keyword), -1
      from unnest(p_memory_ids, p_versions) w (memory_id, version)
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version
     where v.retired_at is null;
end;
comment on function memdb._withdraw_words (integer, bigint[], integer[]) is 'Take the words of some versions out of the keyword statistics, whether they are in already or wait.';

-- _delete_reasons: delete justifications with their premises; counts the rows by table.
create or replace function memdb._delete_reasons (p_tenant integer, p_justification_ids bigint[])
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts jsonb := '{}';
  v_rows   bigint;
begin
  delete from memdb.premise p where p.tenant_id = p_tenant and p.justification_id = any (p_justification_ids);
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'premise', v_rows);
  delete from memdb.justification j where j.tenant_id = p_tenant and j.justification_id = any (p_justification_ids);
  get diagnostics v_rows = row_count;
  return memdb._add_count(v_counts, 'justification', v_rows);
end $$;
comment on function memdb._delete_reasons (integer, bigint[]) is 'Delete justifications with their premises; counts the rows by table.';

-- _delete_versions: delete versions of memories and all that hangs on a version; counts the rows by table.
--
-- The two arrays go side by side. Whether the memory itself stays is the caller's business.
create or replace function memdb._delete_versions (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts jsonb := '{}';
  v_table  text;
  v_rows   bigint;
begin
  perform memdb._withdraw_words(p_tenant, p_memory_ids, p_versions);
  update memdb.cold_file f set has_erased = true
    from unnest(p_memory_ids, p_versions) w (memory_id, version)
    join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version
   where f.tenant_id = p_tenant and f.file_id = v.cold_file_id;
  v_counts := memdb._delete_reasons(p_tenant, array(
    select j.justification_id
      from unnest(p_memory_ids, p_versions) w (memory_id, version)
      join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = w.memory_id and j.version = w.version));
  -- Premises of others that are to go as well, or were let go already.
  delete from memdb.premise p using unnest(p_memory_ids, p_versions) w (memory_id, version)
   where p.tenant_id = p_tenant and p.memory_id = w.memory_id and p.memory_version = w.version;
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'premise', v_rows);
  delete from memdb.review_item r using unnest(p_memory_ids, p_versions) w (memory_id, version)
   where r.tenant_id = p_tenant and r.other_memory_id = w.memory_id and r.other_version = w.version;
  get diagnostics v_rows = row_count;
  v_counts := memdb._add_count(v_counts, 'review_item', v_rows);
  foreach v_table in array array['embedding', 'embedding_cold', 'embedding_queue', 'assertion', 'assessment', 'review_item',
                                 'rederivation', 'memory_version'] loop
    execute format('delete from memdb.%I d using unnest($2, $3) w (memory_id, version)'
                   ' where d.tenant_id = $1 and d.memory_id = w.memory_id and d.version = w.version', v_table)
      using p_tenant, p_memory_ids, p_versions;
    get diagnostics v_rows = row_count;
    v_counts := memdb._add_count(v_counts, v_table, v_rows);
  end loop;
  return v_counts;
end $$;
comment on function memdb._delete_versions (integer, bigint[], integer[]) is 'Delete versions of memories and all that hangs on a version; counts the rows by table.';

-- _fall_back: let memories some of whose versions are gone be what the newest version left says.
--
-- Type, importance and the rest come back from what was kept when that version was replaced; its
-- words are counted again, its vectors go back to the hot table. A version replaced by one that is
-- gone was replaced by the next one left. Where another memory says the same by now both stand.
create or replace function memdb._fall_back (p_tenant integer, p_memory_ids bigint[])
  returns bigint[]
  language plpgsql volatile
as $$
declare
  v_back bigint[];
begin
  update memdb.memory_version v set retired_at = n.recorded_at
    from memdb.memory_version w
    cross join lateral (
      select min(o.recorded_at) as recorded_at from memdb.memory_version o
       where o.tenant_id = p_tenant and o.memory_id = w.memory_id and o.version > w.version) n
   where w.tenant_id = p_tenant and w.memory_id = any (p_memory_ids) and n.recorded_at <> w.retired_at
     and v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version;
  with back as (
    update memdb.memory m
       set version = v.version, type = coalesce(v.replaced ->> 'type', m.type),
           importance = coalesce((v.replaced ->> 'importance')::real, m.importance),
           confidence = coalesce((v.replaced ->> 'confidence')::real, m.confidence),
           trust = coalesce((v.replaced ->> 'trust')::real, m.trust),
           occurred_at = coalesce((v.replaced ->> 'occurred_at')::timestamptz, m.occurred_at),
           content_hash = case when m.external_id is null and exists (
                 select from memdb.memory o
                  where o.tenant_id = p_tenant and o.namespace_id = m.namespace_id and o.external_id is null
                    and o.content_hash = coalesce(v.cold_hash, memdb._content_hash(v.text))
                    and o.user_id is not distinct from m.user_id and o.memory_id <> m.memory_id)
               then int8send(m.memory_id) else coalesce(v.cold_hash, memdb._content_hash(v.text)) end
      from memdb.memory_version v
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and v.tenant_id = p_tenant and v.memory_id = m.memory_id
       and v.version = (select max(o.version) from memdb.memory_version o where o.tenant_id = p_tenant and o.memory_id = m.memory_id)
       and m.version <> v.version
    returning m.memory_id)
  select coalesce(array_agg(b.memory_id), '{}') into v_back from back b;
  update memdb.memory_version v set retired_at = null, replaced = null
    from memdb.memory m
   where m.tenant_id = p_tenant and m.memory_id = any (v_back)
     and v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version;
  insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select p_tenant, m.namespace_id, m.memory_id, m.version from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (v_back) order by m.memory_id;
  perform memdb._warm_vectors(p_tenant, array(
    select m.memory_id from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (v_back) and m.tier <> 'archive'));
  perform memdb._await_vectors(p_tenant, v_back);
  return v_back;
end $$;
comment on function memdb._fall_back (integer, bigint[]) is 'Let memories some of whose versions are gone be what the newest version left says.';

-- _await_vectors: queue the current versions of some memories that have no vector of a model.
create or replace function memdb._await_vectors (p_tenant integer, p_memory_ids bigint[])
  returns void
  language sql volatile
begin atomic
  insert into memdb.embedding_queue (tenant_id, model_id, memory_id, version, namespace_id)
    select p_tenant, d.model_id, m.memory_id, m.version, m.namespace_id
      from memdb.embedding_model d
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
     where d.tenant_id = p_tenant and d.state <> 'retired'
       and not memdb._has_vector(p_tenant, d.model_id, m.memory_id, m.version)
     order by m.memory_id
    on conflict do nothing;
end;
comment on function memdb._await_vectors (integer, bigint[]) is 'Queue the current versions of some memories that have no vector of a model.';

-- _first_sources: the first source left of some versions, which they take heading and place from.
create or replace function memdb._first_sources (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
  returns table (
    memory_id bigint, version integer, event_id bigint, session_id bigint, sequence integer, agent_id text, speaker text,
    occurred_at timestamptz, time_zone text)
  language sql stable rows 10
begin atomic
  select distinct on (w.memory_id, w.version) w.memory_id, w.version, e.event_id, coalesce(e.session_id, m.session_id),
         coalesce(e.sequence, m.sequence), coalesce(e.agent_id, m.agent_id), e.speaker, coalesce(e.occurred_at, m.occurred_at),
         coalesce(e.time_zone, 'UTC')
    from unnest(p_memory_ids, p_versions) w (memory_id, version)
    join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = w.memory_id and j.version = w.version
    join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
    left join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
    left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
   order by w.memory_id, w.version, j.justification_id, p.ordinal;
end;
comment on function memdb._first_sources (integer, bigint[], integer[]) is 'The first source left of some versions, which they take heading and place from.';

-- _rehome: give versions whose first source was forgotten the heading and the place of the first one left.
--
-- Metadata and summary came with the forgotten source: they go. Where the heading changes, so do the
-- words counted and the text to be encoded.
create or replace function memdb._rehome (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
  returns void
  language plpgsql volatile
as $$
declare
  v_ids      bigint[];
  v_versions integer[];
begin
  select coalesce(array_agg(v.memory_id), '{}'), coalesce(array_agg(v.version), '{}') into v_ids, v_versions
    from memdb._first_sources(p_tenant, p_memory_ids, p_versions) s
    join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = s.memory_id and v.version = s.version
   where v.heading is distinct from memdb._heading(v.language, s.occurred_at at time zone s.time_zone, s.speaker);
  perform memdb._withdraw_words(p_tenant, v_ids, v_versions);
  update memdb.memory_version v
     set event_id = s.event_id, metadata = '{}', summary = null,
         heading = memdb._heading(v.language, s.occurred_at at time zone s.time_zone, s.speaker)
    from memdb._first_sources(p_tenant, p_memory_ids, p_versions) s
   where v.tenant_id = p_tenant and v.memory_id = s.memory_id and v.version = s.version;
  update memdb.memory m
     set session_id = s.session_id, sequence = s.sequence, agent_id = s.agent_id, occurred_at = s.occurred_at
    from memdb._first_sources(p_tenant, p_memory_ids, p_versions) s
   where m.tenant_id = p_tenant and m.memory_id = s.memory_id and m.version = s.version;
  insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select p_tenant, v.namespace_id, v.memory_id, v.version
      from unnest(v_ids, v_versions) w (memory_id, version)
      join memdb.memory_version v
        on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version and v.retired_at is null;
  delete from memdb.embedding e using unnest(v_ids, v_versions) w (memory_id, version)
   where e.tenant_id = p_tenant and e.memory_id = w.memory_id and e.version = w.version;
  delete from memdb.embedding_cold e using unnest(v_ids, v_versions) w (memory_id, version)
   where e.tenant_id = p_tenant and e.memory_id = w.memory_id and e.version = w.version;
  perform memdb._await_vectors(p_tenant, v_ids);
end $$;
comment on function memdb._rehome (integer, bigint[], integer[]) is 'Give versions whose first source was forgotten the heading and the place of the first one left.';

-- _support_anew: let memories that lost the reason they stood on stand on another, or fall.
create or replace function memdb._support_anew (p_tenant integer, p_memory_ids bigint[], p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
declare
  v_bare    bigint[];
  v_reasons bigint[];
begin
  perform memdb._fall(p_tenant, p_memory_ids, 'premise_out', null, null, null, p_now);
  perform memdb._rise(p_tenant, array(
    select j.justification_id from memdb.justification j
     where j.tenant_id = p_tenant and j.memory_id = any (p_memory_ids)), p_now);
  -- What is still out stands, for the time it rises again, on the first reason it has.
  select array_agg(w.memory_id), array_agg(w.justification_id) into v_bare, v_reasons
    from (select m.memory_id, min(j.justification_id) as justification_id
            from memdb.memory m
            join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version
           where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
           group by m.memory_id
          having not bool_or(j.supports)) w;
  perform memdb._move_support(p_tenant, v_bare, v_reasons);
  perform memdb._name_causes(p_tenant, array(
    select m.memory_id from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (v_bare) and m.status = 'stale'), p_now);
end $$;
comment on function memdb._support_anew (integer, bigint[], timestamptz) is 'Let memories that lost the reason they stood on stand on another, or fall.';

-- _part_survivors: take from some memories that stay the reasons that are to be forgotten; counts the rows deleted by table.
--
-- Under the truth lock. What loses nothing but reasons is done with, and shown again. Where a version goes as
-- well (_shed_versions), wave -1 remembers that the first source of one that stays was forgotten.
create or replace function memdb._part_survivors (p_tenant integer, p_receipt bigint, p_ids bigint[], p_now timestamptz)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts  jsonb;
  v_split   bigint[];
  v_reasons bigint[];
  v_bare    bigint[];
  v_home    record;
begin
  select coalesce(array_agg(distinct i.subject_id), '{}') into v_split from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids) and not i.stays;
  select coalesce(array_agg(b.justification_id), '{}'), coalesce(array_agg(b.memory_id) filter (where b.supports), '{}')
    into v_reasons, v_bare
    from (select j.* from memdb.erasure_item i
            join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version
           where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids)
             and i.stays) b
   where memdb._is_broken(p_tenant, b.justification_id);
  update memdb.erasure_item i set wave = -1
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids) and i.stays
     and (select min(j.justification_id) from memdb.justification j
           where j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version) = any (v_reasons);
  v_counts := memdb._delete_reasons(p_tenant, v_reasons);
  select coalesce(array_agg(i.subject_id), '{}') as ids, coalesce(array_agg(i.version), '{}') as versions into v_home
    from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids)
     and i.wave = -1 and i.subject_id <> all (v_split);
  perform memdb._rehome(p_tenant, v_home.ids, v_home.versions);
  perform memdb._support_anew(p_tenant, v_bare, p_now);
  delete from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject in ('version', 'memory') and i.subject_id = any (p_ids)
     and i.subject_id <> all (v_split);
  return v_counts;
end $$;
comment on function memdb._part_survivors (integer, bigint, bigint[], timestamptz) is 'Take from some memories that stay the reasons that are to be forgotten; counts the rows deleted by table.';

-- _shed_versions: delete the versions that go of some memories that stay; counts the rows by table.
--
-- Under the truth lock, when no reason that stays rests on any of these versions any more.
create or replace function memdb._shed_versions (p_tenant integer, p_receipt bigint, p_ids bigint[], p_now timestamptz)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts jsonb;
  v_back   bigint[];
  v_home   record;
  v_gone   record;
begin
  select coalesce(array_agg(i.subject_id) filter (where not i.stays), '{}') as ids,
         coalesce(array_agg(i.version) filter (where not i.stays), '{}') as versions into v_gone
    from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids);
  select coalesce(array_agg(i.subject_id), '{}') as ids, coalesce(array_agg(i.version), '{}') as versions into v_home
    from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = any (p_ids) and i.wave = -1;
  v_counts := memdb._delete_versions(p_tenant, v_gone.ids, v_gone.versions);
  v_back := memdb._fall_back(p_tenant, p_ids);
  -- Running summaries and profiles say what an earlier version said, until they are written anew.
  update memdb.summary s set due_at = coalesce(s.due_at, p_now), reason = coalesce(s.reason, 'stale')
   where s.tenant_id = p_tenant and s.memory_id = any (v_gone.ids);
  update memdb.profile p set due_at = coalesce(p.due_at, p_now) where p.tenant_id = p_tenant and p.memory_id = any (v_gone.ids);
  perform memdb._rehome(p_tenant, v_home.ids, v_home.versions);
  perform memdb._support_anew(p_tenant, v_back, p_now);
  delete from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject in ('version', 'memory') and i.subject_id = any (p_ids);
  return v_counts;
end $$;
comment on function memdb._shed_versions (integer, bigint, bigint[], timestamptz) is 'Delete the versions that go of some memories that stay; counts the rows by table.';
