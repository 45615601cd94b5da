-- Keeping topics in order: what is one becomes one, what is two becomes two, a few memories at a time.

-- _halves: two centroids for a topic that speaks of two things; no row where it is one.
--
-- Its newest 100 members are parted between the one farthest from the centroid and the one farthest from that,
-- then twice between the means of the parts. Two things they are where each part holds a fifth
-- and the means are no nearer to each other than members of one topic have to be.
create or replace function memdb._halves (p_tenant integer, p_topic bigint, p_model integer, p_spread double precision)
  returns table (kept halfvec, split halfvec)
  language plpgsql stable rows 1
as $$
declare
  v_vectors halfvec[];
  v_kept    halfvec;
  v_split   halfvec;
  v_share   double precision;
begin
  select array_agg(e.vector) into v_vectors
    from (select m.* from memdb.memory_topic m
           where m.tenant_id = p_tenant and m.topic_id = p_topic order by m.memory_id desc limit 100) m
    join memdb.embedding e
      on e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version;
  if coalesce(cardinality(v_vectors), 0) < 40 then
    return;
  end if;
  select u.vector into v_split
    from unnest(v_vectors) u (vector)
   order by u.vector <#> (select l2_normalize(avg(a.vector)) from unnest(v_vectors) a (vector)) desc, u.vector limit 1;
  select u.vector into v_kept from unnest(v_vectors) u (vector) order by u.vector <#> v_split desc, u.vector limit 1;
  for v_round in 1 .. 3 loop
    select l2_normalize(avg(u.vector) filter (where (u.vector <#> v_kept) <= (u.vector <#> v_split))),
           l2_normalize(avg(u.vector) filter (where (u.vector <#> v_kept) > (u.vector <#> v_split))),
           avg(case when (u.vector <#> v_kept) > (u.vector <#> v_split) then 1 else 0 end)
      into v_kept, v_split, v_share
      from unnest(v_vectors) u (vector);
    exit when v_split is null or v_kept is null;
  end loop;
  if v_share between 0.2 and 0.8 and -(v_kept <#> v_split) < p_spread + 0.3 * (1 - p_spread) then
    kept := v_kept;
    split := v_split;
    return next;
  end if;
end $$;
comment on function memdb._halves (integer, bigint, integer, double precision) is 'Two centroids for a topic that speaks of two things; no row where it is one.';

-- _plan_topic: begin to merge a topic that was changed into one that is the same, or to split it.
--
-- The same are topics of one entity, and topics whose centroids are 0.85 of the way from p_spread (see
-- _vector_spread) to equal, or nearer; the smaller one goes into the larger. Only begins: _move_topic moves the members.
create or replace function memdb._plan_topic (p_tenant integer, p_topic bigint, p_model integer, p_spread double precision)
  returns void
  language plpgsql volatile
as $$
declare
  v_topic  memdb.topic;
  v_vector halfvec;
  v_other  record;
  v_half   record;
begin
  select t.* into v_topic from memdb.topic t where t.tenant_id = p_tenant and t.topic_id = p_topic;
  if v_topic.topic_id is null or v_topic.moving_to is not null
     or exists (select from memdb.topic t where t.tenant_id = p_tenant and t.moving_to = p_topic) then
    return;
  end if;
  select c.vector into v_vector
    from memdb.topic_centroid c where c.tenant_id = p_tenant and c.model_id = p_model and c.topic_id = p_topic;
  select o.topic_id, o.members into v_other
    from (select n.topic_id, n.closeness
            from memdb._near_topics(p_tenant, v_topic.namespace_id, p_model, v_vector, 5) n
           where n.closeness >= p_spread + 0.85 * (1 - p_spread)
          union all
          select t.topic_id, 0
            from memdb.entity e
            join memdb.entity f
              on f.tenant_id = p_tenant and coalesce(e.merged_into, e.entity_id) in (f.entity_id, f.merged_into)
            join memdb.topic t on t.tenant_id = p_tenant and t.entity_id = f.entity_id
           where e.tenant_id = p_tenant and e.entity_id = v_topic.entity_id
             and not exists (select from memdb.topic_centroid c
                              where c.tenant_id = p_tenant and c.topic_id in (p_topic, t.topic_id))) n
    join memdb.topic o on o.tenant_id = p_tenant and o.topic_id = n.topic_id
   where o.topic_id <> p_topic and o.moving_to is null
     and not exists (select from memdb.topic t where t.tenant_id = p_tenant and t.moving_to = o.topic_id)
   order by n.closeness desc, o.topic_id
   limit 1;
  if found then
    update memdb.topic t
       set moving_to = case when t.topic_id = p_topic then v_other.topic_id else p_topic end, moves_all = true, moved_after = 0
     where t.tenant_id = p_tenant
       and t.topic_id = case when (v_topic.members, -p_topic) < (v_other.members, -v_other.topic_id) then p_topic else v_other.topic_id end;
    return;
  end if;
  select h.* into v_half from memdb._halves(p_tenant, p_topic, p_model, p_spread) h;
  if found then
    insert into memdb.topic as t (tenant_id, namespace_id) values (p_tenant, v_topic.namespace_id) returning t.topic_id into v_other;
    insert into memdb.topic_centroid (tenant_id, model_id, topic_id, namespace_id, vector)
      values (p_tenant, p_model, v_other.topic_id, v_topic.namespace_id, v_half.split);
    update memdb.topic_centroid c set vector = v_half.kept
     where c.tenant_id = p_tenant and c.model_id = p_model and c.topic_id = p_topic;
    update memdb.topic t set moving_to = v_other.topic_id, moved_after = 0 where t.tenant_id = p_tenant and t.topic_id = p_topic;
  end if;
end $$;
comment on function memdb._plan_topic (integer, bigint, integer, double precision) is 'Begin to merge a topic that was changed into one that is the same, or to split it.';

-- _move_topic: move up to p_limit members of one topic that is being merged or split; how many it moved or looked at.
create or replace function memdb._move_topic (p_tenant integer, p_model integer, p_limit integer)
  returns integer
  language plpgsql volatile
as $$
declare
  v_topic  memdb.topic;
  v_batch  bigint[];
  v_moved  integer;
begin
  select t.* into v_topic from memdb.topic t
   where t.tenant_id = p_tenant and t.moving_to is not null order by t.topic_id limit 1;
  if not found then
    return 0;
  end if;
  v_batch := array(select m.memory_id from memdb.memory_topic m
                    where m.tenant_id = p_tenant and m.topic_id = v_topic.topic_id and m.memory_id > v_topic.moved_after
                    order by m.memory_id limit p_limit);
  update memdb.memory_topic m set topic_id = v_topic.moving_to
   where m.tenant_id = p_tenant and m.memory_id = any (v_batch) and m.topic_id = v_topic.topic_id
     and (v_topic.moves_all or exists (
       select from memdb.embedding e
         join memdb.topic_centroid k on k.tenant_id = p_tenant and k.model_id = p_model and k.topic_id = v_topic.topic_id
         join memdb.topic_centroid s on s.tenant_id = p_tenant and s.model_id = p_model and s.topic_id = v_topic.moving_to
        where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
          and (e.vector <#> s.vector) < (e.vector <#> k.vector)));
  get diagnostics v_moved = row_count;
  update memdb.topic t
     set members = t.members + case when t.topic_id = v_topic.topic_id then -v_moved else v_moved end, is_due = true,
         moved_after = case when t.topic_id = v_topic.topic_id then coalesce(v_batch[cardinality(v_batch)], 0) else t.moved_after end
   where t.tenant_id = p_tenant and t.topic_id in (v_topic.topic_id, v_topic.moving_to);
  if cardinality(v_batch) < p_limit then
    update memdb.topic t set moving_to = null, moves_all = false, moved_after = 0
     where t.tenant_id = p_tenant and t.topic_id = v_topic.topic_id;
    delete from memdb.topic t
     where t.tenant_id = p_tenant and t.topic_id = v_topic.topic_id
       and not exists (select from memdb.memory_topic m where m.tenant_id = p_tenant and m.topic_id = v_topic.topic_id);
  end if;
  return cardinality(v_batch);
end $$;
comment on function memdb._move_topic (integer, integer, integer) is 'Move up to p_limit members of one topic that is being merged or split; how many it moved or looked at.';

-- refresh_topics: put memories into topics and keep these in order, one bounded step.
--
-- Takes up to p_limit (1 to 10,000) memories, puts each into the topic it fits or a new one, makes
-- labels and centroids of as many changed topics anew, begins merging or splitting them, and moves up to
-- p_limit members of topics that are being merged or split. Returns what is left of it, counted up to 10,000:
-- call again until 0, and now and then after that, for each call also looks at some of the older memories.
-- How topics are chosen: _choose_topic, _plan_topic. One call of a tenant at a time; another one
-- comes back at once with 1. Writers are not held up. Raises MD001, MD301. Cost: for each memory
-- and each changed topic, comparing with the centroids of its namespace (at most 1,000).
create or replace function memdb.refresh_topics (
  p_tenant integer,
  p_limit  integer default 500
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, public, pg_temp
  -- Its statements are planned while the tables are empty, and kept: reading in sequence would look cheap.
  set enable_seqscan = off
as $$
declare
  v_model  integer;
  v_spread jsonb := '{}';
  v_topic  record;
  v_moved  integer := 0;
  v_left   integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 10000);
  -- 1835363700 is "memt". Two at once would make two topics of one thing.
  if not pg_try_advisory_xact_lock(1835363700, p_tenant) then
    return 1;
  end if;
  perform set_config('jit', 'off', true);
  select m.model_id into v_model from memdb.embedding_model m where m.tenant_id = p_tenant and m.state = 'active';
  if v_model is not null then
    select coalesce(jsonb_object_agg(n.namespace_id, memdb._vector_spread(p_tenant, n.namespace_id, v_model)), '{}') into v_spread
      from memdb.namespace n where n.tenant_id = p_tenant;
  end if;
  perform memdb._assign_topics(p_tenant, v_model, v_spread, p_limit);
  for v_topic in
    select t.topic_id, t.namespace_id from memdb.topic t where t.tenant_id = p_tenant and t.is_due order by t.topic_id limit p_limit
  loop
    perform memdb._update_topic(p_tenant, v_topic.topic_id, v_model);
    perform memdb._plan_topic(p_tenant, v_topic.topic_id, v_model,
              (v_spread ->> v_topic.namespace_id::text)::double precision);
  end loop;
  while v_moved < p_limit and exists (select from memdb.topic t where t.tenant_id = p_tenant and t.moving_to is not null) loop
    v_moved := v_moved + memdb._move_topic(p_tenant, v_model, p_limit - v_moved) + 1;
  end loop;
  select count(*) into v_left
    from ((select from memdb.memory m
            where m.tenant_id = p_tenant
              and m.memory_id > (select p.seen_id from memdb.topic_progress p where p.tenant_id = p_tenant) limit 10000)
          union all
          (select from memdb.topic t where t.tenant_id = p_tenant and (t.is_due or t.moving_to is not null) limit 10000)) w;
  return least(v_left, 10000);
end $$;
comment on function memdb.refresh_topics (integer, integer) is 'Put memories into topics and keep these in order, one bounded step.';
