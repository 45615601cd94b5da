-- Consistency: everything that is derived from the truth, recomputed; and mended where asked.
--
-- Vectors, keyword statistics, queues and counters follow the memories by the code that writes
-- them. check_consistency finds where they do not.

-- _audit_vectors: whether every current memory has a vector of each model or waits for one, and no other has a hot one.
create or replace function memdb._audit_vectors (p_tenant integer, p_repair boolean)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 3
as $$
declare
  v_missing bigint[];
  v_dead    bigint[];
  v_waiting bigint[];
begin
  with missing as (
    select d.model_id, m.memory_id, m.version, m.namespace_id
      from memdb.embedding_model d
      join memdb.memory m on m.tenant_id = p_tenant
     where d.tenant_id = p_tenant and d.state <> 'retired' and m.tier <> 'archive'
       and not exists (select from memdb.embedding e where e.tenant_id = p_tenant and e.model_id = d.model_id
                          and e.memory_id = m.memory_id and e.version = m.version)
       and not exists (select from memdb.embedding_cold e where e.tenant_id = p_tenant and e.model_id = d.model_id
                          and e.memory_id = m.memory_id and e.version = m.version)
       and not exists (select from memdb.embedding_queue q where q.tenant_id = p_tenant and q.model_id = d.model_id
                          and q.memory_id = m.memory_id and q.version = m.version)
  ), queued as (
    insert into memdb.embedding_queue (tenant_id, model_id, memory_id, version, namespace_id)
      select p_tenant, w.model_id, w.memory_id, w.version, w.namespace_id from missing w where p_repair)
  select coalesce(array_agg(distinct w.memory_id), '{}') into v_missing from missing w;
  with dead as (
    select e.model_id, e.memory_id, e.version
      from memdb.embedding e
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = e.memory_id and m.version <> e.version
     where e.tenant_id = p_tenant
  ), moved as (
    delete from memdb.embedding e using dead d
     where p_repair and e.tenant_id = p_tenant and e.model_id = d.model_id and e.memory_id = d.memory_id and e.version = d.version
    returning e.*
  ), cold as (
    insert into memdb.embedding_cold select v.* from moved v on conflict do nothing)
  select coalesce(array_agg(distinct d.memory_id), '{}') into v_dead from dead d;
  with dead as (
    select q.model_id, q.memory_id, q.version
      from memdb.embedding_queue q
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = q.memory_id
      join memdb.embedding_model d on d.tenant_id = p_tenant and d.model_id = q.model_id
     where q.tenant_id = p_tenant and (m.version <> q.version or d.state = 'retired')
  ), dropped as (
    delete from memdb.embedding_queue q using dead d
     where p_repair and q.tenant_id = p_tenant and q.model_id = d.model_id and q.memory_id = d.memory_id and q.version = d.version)
  select coalesce(array_agg(distinct d.memory_id), '{}') into v_waiting from dead d;
  return query
    select * from memdb._finding('memories without a vector that none is made for', v_missing, p_repair, 'Repair queues them: then call embed_pending.')
    union all
    select * from memdb._finding('memories of which an old version has a vector in the hot table', v_dead, p_repair, 'Repair moves it to the cold one.')
    union all
    select * from memdb._finding('memories of which a vector is waited for that nobody needs', v_waiting, p_repair, 'Repair drops the request.');
end $$;
comment on function memdb._audit_vectors (integer, boolean) is 'Whether every current memory has a vector of each model or waits for one, and no other has a hot one.';

-- _keyword_differences: words whose number of documents is not what versions and queue together make it.
create or replace function memdb._keyword_differences (p_tenant integer)
  returns table (namespace_id integer, lexeme text, wanted bigint)
  language sql stable rows 100
as $$
  with counted as (
    select v.namespace_id, l.lexeme, count(*) as documents
      from memdb.memory m
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
      cross join unnest(tsvector_to_array(v.keyword)) l (lexeme)
     where m.tenant_id = p_tenant and not starts_with(l.lexeme, E'\x01')
     group by 1, 2
    union all
    select q.namespace_id, l.lexeme, -sum(q.sign)
      from memdb.keyword_queue q
      left join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = q.memory_id and v.version = q.version
      cross join unnest(coalesce(q.lexemes, tsvector_to_array(v.keyword))) l (lexeme)
     where q.tenant_id = p_tenant and not starts_with(l.lexeme, E'\x01')
     group by 1, 2
  ), wanted as (
    select c.namespace_id, c.lexeme, sum(c.documents)::bigint as documents from counted c group by 1, 2
  ), stored as (
    select s.namespace_id, s.lexeme, s.documents from memdb.lexeme_stat s where s.tenant_id = p_tenant
  )
  select coalesce(w.namespace_id, s.namespace_id), coalesce(w.lexeme, s.lexeme), coalesce(w.documents, 0)
    from wanted w
    full join stored s on s.namespace_id = w.namespace_id and s.lexeme = w.lexeme
   where coalesce(w.documents, 0) <> coalesce(s.documents, 0);
$$;
comment on function memdb._keyword_differences (integer) is 'Words whose number of documents is not what versions and queue together make it.';

-- _length_differences: namespaces whose number and length of documents is not what versions and queue together make it.
create or replace function memdb._length_differences (p_tenant integer)
  returns table (namespace_id integer, documents bigint, tokens bigint)
  language sql stable rows 10
as $$
  with document as (
    select v.namespace_id, 1 as sign, tsvector_to_array(v.keyword) as lexemes
      from memdb.memory m
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
     where m.tenant_id = p_tenant
    union all
    select q.namespace_id, -q.sign, coalesce(q.lexemes, tsvector_to_array(v.keyword))
      from memdb.keyword_queue q
      left join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = q.memory_id and v.version = q.version
     where q.tenant_id = p_tenant and (q.lexemes is not null or v.memory_id is not null)
  ), wanted as (
    select d.namespace_id, sum(d.sign) as documents,
           sum(d.sign * (select count(*) from unnest(d.lexemes) l (lexeme) where not starts_with(l.lexeme, E'\x01')))::bigint as tokens
      from document d group by 1
  ), stored as (
    select s.namespace_id, s.documents, s.tokens from memdb.namespace_stat s where s.tenant_id = p_tenant
  )
  select coalesce(w.namespace_id, s.namespace_id), coalesce(w.documents, 0), coalesce(w.tokens, 0)
    from wanted w
    full join stored s on s.namespace_id = w.namespace_id
   where (coalesce(w.documents, 0), coalesce(w.tokens, 0)) <> (coalesce(s.documents, 0), coalesce(s.tokens, 0));
$$;
comment on function memdb._length_differences (integer) is 'Namespaces whose number and length of documents is not what versions and queue together make it.';

-- _audit_keywords: whether the keyword statistics are what the current versions make them, the queue taken into account.
--
-- The weight bound of a word that is put back is 1, which no weight exceeds.
create or replace function memdb._audit_keywords (p_tenant integer, p_repair boolean, p_now timestamptz)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 2
as $$
declare
  v_namespaces integer[];
  v_lexemes    text[];
  v_wanted     bigint[];
  v_lengths    integer[];
begin
  -- As fold_keyword_stats: the queue and the figures must not change under each other ("melk").
  perform pg_advisory_xact_lock(1835363435, p_tenant);
  select coalesce(array_agg(d.namespace_id), '{}'), array_agg(d.lexeme), array_agg(d.wanted)
    into v_namespaces, v_lexemes, v_wanted from memdb._keyword_differences(p_tenant) d;
  select coalesce(array_agg(d.namespace_id), '{}') into v_lengths from memdb._length_differences(p_tenant) d;
  if p_repair then
    insert into memdb.lexeme_stat as s (tenant_id, namespace_id, lexeme, documents)
      select p_tenant, w.namespace_id, w.lexeme, w.wanted
        from unnest(v_namespaces, v_lexemes, v_wanted) w (namespace_id, lexeme, wanted)
      on conflict on constraint lexeme_stat_pkey do update set documents = excluded.documents;
    delete from memdb.lexeme_stat s
     using unnest(v_namespaces, v_lexemes) w (namespace_id, lexeme)
     where s.tenant_id = p_tenant and s.namespace_id = w.namespace_id and s.lexeme = w.lexeme and s.documents <= 0;
    insert into memdb.namespace_stat as s (tenant_id, namespace_id, documents, tokens, folded_at)
      select p_tenant, d.namespace_id, d.documents, d.tokens, p_now from memdb._length_differences(p_tenant) d
      on conflict on constraint namespace_stat_pkey
      do update set documents = excluded.documents, tokens = excluded.tokens, folded_at = excluded.folded_at;
  end if;
  return query
    select w.problem, w.found, case when p_repair then w.found else 0 end, w.examples, w.remedy
      from (values ('words counted wrongly in the keyword statistics (examples: namespaces)', cardinality(v_namespaces)::bigint,
                    array(select distinct n.id::bigint from unnest(v_namespaces) n (id) limit 10), 'Repair counts them anew.'),
                   ('namespaces measured wrongly in the keyword statistics', cardinality(v_lengths)::bigint,
                    array(select n.id::bigint from unnest(v_lengths) n (id) limit 10), 'Repair measures them anew.'))
             w (problem, found, examples, remedy);
end $$;
comment on function memdb._audit_keywords (integer, boolean, timestamptz) is 'Whether the keyword statistics are what the current versions make them, the queue taken into account.';

-- _audit_queues: leases that ran out, questions that answered themselves, sessions that would give out a number twice.
create or replace function memdb._audit_queues (p_tenant integer, p_repair boolean, p_now timestamptz)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 4
as $$
declare
  v_events   bigint[];
  v_memories bigint[];
  v_reviews  bigint[];
  v_sessions bigint[];
begin
  v_events := array(select x.event_id from memdb.extraction x
                     where x.tenant_id = p_tenant and x.state = 'leased' and x.leased_until <= p_now order by 1);
  v_memories := array(
    select q.memory_id from memdb.embedding_queue q where q.tenant_id = p_tenant and q.leased_until <= p_now
    union select d.memory_id from memdb.rederivation d where d.tenant_id = p_tenant and d.leased_until <= p_now order by 1);
  v_reviews := array(select i.review_id from memdb.review_item i
                       join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = i.memory_id
                      where i.tenant_id = p_tenant and i.kind = 'stale' and i.state = 'open' and m.status <> 'stale' order by 1);
  v_sessions := array(select s.session_id from memdb.session s
                       where s.tenant_id = p_tenant
                         and s.next_sequence <= (select max(e.sequence) from memdb.event e
                                                  where e.tenant_id = p_tenant and e.session_id = s.session_id) order by 1);
  if p_repair then
    -- An event whose lease runs out again and again kills its worker: it ends as dead, as in 12.
    update memdb.extraction x
       set state = case when x.attempts >= 3 * (memdb._policy(p_tenant, 'extraction_attempts', x.namespace_id))::integer
                        then 'dead' else 'failed' end,
           worker = null, leased_until = null, error = coalesce(x.error, 'the lease ran out')
     where x.tenant_id = p_tenant and x.event_id = any (v_events) and x.state = 'leased' and x.leased_until <= p_now;
    update memdb.embedding_queue q set leased_until = null where q.tenant_id = p_tenant and q.leased_until <= p_now;
    update memdb.rederivation d set leased_until = null, worker = null where d.tenant_id = p_tenant and d.leased_until <= p_now;
    update memdb.review_item i set state = 'decided', decision = 'settled', decided_at = p_now
     where i.tenant_id = p_tenant and i.review_id = any (v_reviews) and i.state = 'open';
    update memdb.session s
       set next_sequence = 1 + (select max(e.sequence) from memdb.event e where e.tenant_id = p_tenant and e.session_id = s.session_id)
     where s.tenant_id = p_tenant and s.session_id = any (v_sessions);
  end if;
  return query
    select * from memdb._finding('events whose lease ran out', v_events, p_repair, 'Start a worker; repair gives them back to the queue.')
    union all
    select * from memdb._finding('memories whose lease ran out', v_memories, p_repair, 'Start a worker; repair gives them back to the queue.')
    union all
    select * from memdb._finding('questions about stale memories that stand again', v_reviews, p_repair, 'Repair closes them.')
    union all
    select * from memdb._finding('sessions that would give out a number twice', v_sessions, p_repair, 'Repair counts on from the last event.');
end $$;
comment on function memdb._audit_queues (integer, boolean, timestamptz) is 'Leases that ran out, questions that answered themselves, sessions that would give out a number twice.';

-- _take_look: one of the eight looks of check_consistency; none beyond them.
create or replace function memdb._take_look (p_tenant integer, p_look integer, p_repair boolean, p_now timestamptz)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 3
as $$
begin
  case p_look
    when 1 then return query select * from memdb._audit_versions(p_tenant, p_repair, p_now);
    when 2 then return query select * from memdb._audit_supports(p_tenant, p_repair);
    when 3 then return query select * from memdb._audit_labels(p_tenant, p_repair, p_now);
    when 4 then return query select * from memdb._audit_beliefs(p_tenant, p_repair, p_now);
    when 5 then return query select * from memdb._audit_vectors(p_tenant, p_repair);
    when 6 then return query select * from memdb._audit_keywords(p_tenant, p_repair, p_now);
    when 7 then return query select * from memdb._audit_queues(p_tenant, p_repair, p_now);
    when 8 then return query select * from memdb._audit_graph(p_tenant, p_repair);
    else return;
  end case;
end $$;
comment on function memdb._take_look (integer, integer, boolean, timestamptz) is 'One of the eight looks of check_consistency; none beyond them.';

-- _check_next: take the next look of the job that checks, so that writers wait for one look and not for all.
--
-- Which one, and what those before it found, stands in the open run of the job. A look reads the whole
-- tenant: what supports what is one question.
create or replace function memdb._check_next (p_tenant integer, out remaining bigint, out note text)
  language plpgsql volatile
as $$
declare
  v_look  integer := 1;
  v_found text;
begin
  perform memdb._lock_truth(p_tenant, true);
  select r.batches + 1, r.error into v_look, v_found
    from memdb.job_run r where r.tenant_id = p_tenant and r.name = 'check' and r.finished_at is null
   order by r.run_id desc limit 1;
  select string_agg(a.found || ' ' || a.problem, '; ' order by a.problem) into note
    from memdb._take_look(p_tenant, v_look, false, memdb._truth_time(p_tenant)) a where a.found > 0;
  note := nullif(concat_ws('; ', v_found, note), '');
  remaining := greatest(0, 8 - v_look);
end $$;
comment on function memdb._check_next (integer) is 'Take the next look of the job that checks, so that writers wait for one look and not for all.';

-- check_consistency: compare all that is derived with what it is derived from, and mend it where asked.
--
-- Returns one row per kind of problem, also where found is 0: how many, how many were repaired, ids
-- of the first ten, and what to do. Labels of memories are recomputed from scratch. p_repair mends
-- in the same transaction; what it changes in the truth is a correction like any other. Writers of
-- the tenant wait meanwhile, readers do not. Operators only. Raises MD101, MD303. Cost: every
-- premise and every word of the tenant is read; some minutes for a million memories.
create or replace function memdb.check_consistency (
  p_tenant integer,
  p_repair boolean default false
)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now timestamptz;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._lock_truth(p_tenant, true);
  v_now := memdb._truth_time(p_tenant);
  for v_look in 1 .. 8 loop
    return query select * from memdb._take_look(p_tenant, v_look, p_repair, v_now);
  end loop;
end $$;
comment on function memdb.check_consistency (integer, boolean) is 'Compare all that is derived with what it is derived from, and mend it where asked.';
