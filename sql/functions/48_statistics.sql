-- Statistics of the keyword leg: how common each word is in a namespace, kept by a job.
--
-- Writers append to keyword_queue; counters that every writer updated would serialise them.
-- BM25 needs, per namespace, the number of documents, their mean length, and per word the number
-- of documents that hold it; figures a fifth out of date rank alike.

-- fold_keyword_stats: move queued versions into the keyword statistics, one bounded step.
--
-- Takes up to p_limit (1 to 100,000) rows of the tenant's queue, oldest first, and adds them (a
-- row of sign -1 brings its lexemes and takes them away). A row whose version was erased counts
-- nothing. Returns how many rows are left, counted up to 10,000: call again until 0.
-- Length of a document = its number of different lexemes, those of the scope left out.
-- Raises MD001, MD301. Cost: one upsert per distinct (namespace, word) of the step.
create or replace function memdb.fold_keyword_stats (
  p_tenant integer,
  p_limit  integer default 1000
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole, for each row.
  set enable_seqscan = off
as $$
declare
  v_now        timestamptz;
  v_taken      bigint[];
  v_namespaces integer[];
  v_lexemes    text[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 100000);
  -- One folder of a tenant at a time (1835363435 is "melk"): beside another, the row that takes a
  -- version away could be folded before the row that brought it, and counts fall below zero.
  perform pg_advisory_xact_lock(1835363435, p_tenant);
  v_now := memdb.current_time();
  -- Joined by key, not compared with an array: where the table looked small each of its rows would go
  -- through the whole array.
  v_taken := array(select f.queue_id from memdb.keyword_queue f where f.tenant_id = p_tenant
                    order by f.queue_id limit p_limit for update skip locked);
  with taken as (
    delete from memdb.keyword_queue q
     using unnest(v_taken) f (queue_id)
     where q.tenant_id = p_tenant and q.queue_id = f.queue_id
    returning q.queue_id, q.namespace_id, q.memory_id, q.version, q.lexemes, q.sign),
  document as materialized (
    select t.queue_id, t.namespace_id, t.sign, t.lexemes, v.keyword, w.length
      from taken t
      left join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = t.memory_id and v.version = t.version
      cross join lateral (
        select count(*) as length
          from unnest(coalesce(t.lexemes, tsvector_to_array(v.keyword))) l (lexeme)
         where not starts_with(l.lexeme, E'\x01')) w
     where t.lexemes is not null or v.memory_id is not null),
  total as (
    insert into memdb.namespace_stat as s (tenant_id, namespace_id, documents, tokens, folded_at)
      select p_tenant, d.namespace_id, sum(d.sign), sum(d.sign * d.length), v_now
        from document d group by d.namespace_id order by d.namespace_id
      on conflict on constraint namespace_stat_pkey
      do update set documents = greatest(s.documents + excluded.documents, 0),
                    tokens = greatest(s.tokens + excluded.tokens, 0), folded_at = excluded.folded_at),
  counted as (
    insert into memdb.lexeme_stat as s (tenant_id, namespace_id, lexeme, documents)
      select p_tenant, d.namespace_id, l.lexeme, sum(d.sign)
        from document d
        cross join lateral unnest(coalesce(d.lexemes, tsvector_to_array(d.keyword))) l (lexeme)
       where not starts_with(l.lexeme, E'\x01')
       group by d.namespace_id, l.lexeme
       order by d.namespace_id, l.lexeme
      on conflict on constraint lexeme_stat_pkey
      do update set documents = s.documents + excluded.documents
      returning s.namespace_id, s.lexeme, s.documents)
  select array_agg(c.namespace_id), array_agg(c.lexeme) into v_namespaces, v_lexemes from counted c where c.documents <= 0;
  delete from memdb.lexeme_stat s
   using unnest(v_namespaces, v_lexemes) g (namespace_id, lexeme)
   where s.tenant_id = p_tenant and s.namespace_id = g.namespace_id and s.lexeme = g.lexeme;
  return (select count(*) from (select from memdb.keyword_queue q where q.tenant_id = p_tenant limit 10000) w);
end $$;
comment on function memdb.fold_keyword_stats (integer, integer) is 'Move queued versions into the keyword statistics, one bounded step.';
