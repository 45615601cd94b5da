-- Topics: memories of one namespace that are about the same thing, in groups that keep themselves in order.
--
-- A memory belongs to at most one topic: the one whose centroid its vector is nearest to, if near
-- enough, where an entity that both speak of brings it nearer; without vectors the entity alone.
-- Nothing of this happens when memories are written: refresh_topics, a job, takes them later, in
-- bounded batches. What is near enough depends on the encoder, whose vectors may all lie close
-- together: so it is counted from how close any two memories of the namespace are on average.

-- _topic_members: the memories of a topic, and of those being merged into it.
create or replace function memdb._topic_members (p_tenant integer, p_topic bigint)
  returns table (memory_id bigint)
  language sql stable rows 100
begin atomic
  select m.memory_id from memdb.memory_topic m where m.tenant_id = p_tenant and m.topic_id = p_topic
  union all
  select m.memory_id
    from memdb.topic t
    join memdb.memory_topic m on m.tenant_id = p_tenant and m.topic_id = t.topic_id
   where t.tenant_id = p_tenant and t.moving_to = p_topic and t.moves_all;
end;
comment on function memdb._topic_members (integer, bigint) is 'The memories of a topic, and of those being merged into it.';

-- _vector_spread: how close any two vectors of a namespace are on average, as a cosine; null without vectors.
--
-- Of unit vectors that is the squared length of their mean; taken of the newest memories and every fifth of the newest 1,000.
create or replace function memdb._vector_spread (p_tenant integer, p_namespace integer, p_model integer)
  returns double precision
  language plpgsql stable
as $$
begin
  return (
    select -(avg(e.vector) <#> avg(e.vector))
      from (select m.memory_id, m.version, row_number() over (order by m.occurred_at desc, m.memory_id desc) as place
              from memdb.memory m
             where m.tenant_id = p_tenant and m.namespace_id = p_namespace
             order by m.occurred_at desc, m.memory_id desc limit 1000) m
      join memdb.embedding e
        on e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
     where m.place % 5 = 0 or m.place < 5);
end $$;
comment on function memdb._vector_spread (integer, integer, integer) is 'How close any two vectors of a namespace are on average, as a cosine; null without vectors.';

-- _topic_entity: of what a memory speaks of, the entity fit to gather a topic; null if there is none.
--
-- The rarest that at least one other memory mentions too, counted up to 1,000: what everything
-- mentions divides nothing, and what is mentioned once gathers nothing.
create or replace function memdb._topic_entity (p_tenant integer, p_memory bigint)
  returns bigint
  language sql stable
begin atomic
  select m.entity_id
    from memdb.mention m
    cross join lateral (
      select count(*) as memories
        from (select from memdb.mention o where o.tenant_id = p_tenant and o.entity_id = m.entity_id limit 1000) w) c
   where m.tenant_id = p_tenant and m.memory_id = p_memory and c.memories between 2 and 999
   order by c.memories, m.entity_id
   limit 1;
end;
comment on function memdb._topic_entity (integer, bigint) is 'Of what a memory speaks of, the entity fit to gather a topic; null if there is none.';

-- _choose_topic: put one memory into the topic it fits best, or into a new one; null where nothing tells its topic.
--
-- p_spread is the _vector_spread of its namespace. Near enough is three tenths of the way from there
-- to equal; the entity of the topic counts 0.1. A namespace with 1,000 topics gets no more: its memories
-- go to the nearest. A memory without vector and without entity stays without a topic.
create or replace function memdb._choose_topic (
  p_tenant integer,
  p_memory memdb.memory,
  p_model  integer,
  p_spread double precision
)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_vector halfvec;
  v_entity bigint;
  v_best   record;
  v_topic  bigint;
  v_topics integer;
begin
  select e.vector into v_vector
    from memdb.embedding e
   where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = p_memory.memory_id and e.version = p_memory.version;
  select s.topic_id, max(s.closeness) + max(s.bonus) as closeness, max(s.bonus) > 0 as is_entity into v_best
    from (select * from memdb._near_topics(p_tenant, p_memory.namespace_id, p_model, v_vector, 5)
          union all
          select t.topic_id, coalesce(-(c.vector <#> v_vector), 0), 0.1
            from memdb.mention m
            join memdb.topic t on t.tenant_id = p_tenant and t.entity_id = m.entity_id and t.moving_to is null
            left join memdb.topic_centroid c on c.tenant_id = p_tenant and c.model_id = p_model and c.topic_id = t.topic_id
           where m.tenant_id = p_tenant and m.memory_id = p_memory.memory_id) s
   group by s.topic_id
   order by 2 desc, 1
   limit 1;
  if v_best.closeness >= p_spread + 0.3 * (1 - p_spread) or (v_vector is null and v_best.is_entity) then
    return v_best.topic_id;
  end if;
  v_entity := memdb._topic_entity(p_tenant, p_memory.memory_id);
  select count(*) into v_topics from memdb.topic t where t.tenant_id = p_tenant and t.namespace_id = p_memory.namespace_id;
  if v_topics >= 1000 or (v_vector is null and v_entity is null) then
    return case when v_vector is not null then v_best.topic_id end;
  end if;
  insert into memdb.topic as t (tenant_id, namespace_id, entity_id) values (p_tenant, p_memory.namespace_id, v_entity)
    returning t.topic_id into v_topic;
  insert into memdb.topic_centroid (tenant_id, model_id, topic_id, namespace_id, vector)
    select p_tenant, p_model, v_topic, p_memory.namespace_id, v_vector where v_vector is not null;
  return v_topic;
end $$;
comment on function memdb._choose_topic (integer, memdb.memory, integer, double precision) is 'Put one memory into the topic it fits best, or into a new one; null where nothing tells its topic.';

-- _near_topics: the topics of a namespace whose centroids are nearest to a vector, those being moved left out.
create or replace function memdb._near_topics (p_tenant integer, p_namespace integer, p_model integer, p_vector halfvec, p_limit integer)
  returns table (topic_id bigint, closeness double precision, bonus double precision)
  language plpgsql stable rows 5
as $$
begin
  if p_vector is not null then
    return query
      select c.topic_id, -(c.vector <#> p_vector), 0::double precision
        from memdb.topic_centroid c
       where c.tenant_id = p_tenant and c.model_id = p_model and c.namespace_id = p_namespace
         and not exists (select from memdb.topic t
                          where t.tenant_id = p_tenant and t.topic_id = c.topic_id and t.moving_to is not null)
       order by c.vector <#> p_vector, c.topic_id
       limit p_limit;
  end if;
end $$;
comment on function memdb._near_topics (integer, integer, integer, halfvec, integer) is 'The topics of a namespace whose centroids are nearest to a vector, those being moved left out.';

-- _count_topics: add what came to and went from some topics, which are due then.
create or replace function memdb._count_topics (p_tenant integer, p_came bigint[], p_went bigint[])
  returns void
  language sql volatile
as $$
  update memdb.topic t
     set members = greatest(t.members + c.memories, 0), is_due = true
    from (select u.topic_id, sum(u.step)::integer as memories
            from (select a.topic_id, 1 from unnest(p_came) a (topic_id)
                  union all
                  select w.topic_id, -1 from unnest(p_went) w (topic_id)) u (topic_id, step)
           group by u.topic_id) c
   where t.tenant_id = p_tenant and t.topic_id = c.topic_id;
$$;
comment on function memdb._count_topics (integer, bigint[], bigint[]) is 'Add what came to and went from some topics, which are due then.';

-- _assign_topics: put the next memories into topics; how many it looked at.
--
-- p_spread holds the _vector_spread of each namespace. Topics are counted once at the end: a row
-- updated for each memory would leave hundreds of dead ones to wade through.
create or replace function memdb._assign_topics (p_tenant integer, p_model integer, p_spread jsonb, p_limit integer)
  returns integer
  language plpgsql volatile
as $$
declare
  v_memory memdb.memory;
  v_topic  bigint;
  v_before bigint;
  v_came   bigint[] := '{}';
  v_went   bigint[] := '{}';
  v_looked integer := 0;
begin
  for v_memory in select b.* from memdb._topic_batch(p_tenant, p_limit) b loop
    v_looked := v_looked + 1;
    v_topic := memdb._choose_topic(p_tenant, v_memory, p_model, (p_spread ->> v_memory.namespace_id::text)::double precision);
    continue when v_topic is null;
    select m.topic_id into v_before from memdb.memory_topic m
     where m.tenant_id = p_tenant and m.memory_id = v_memory.memory_id;
    insert into memdb.memory_topic as m (tenant_id, memory_id, version, topic_id, namespace_id)
      values (p_tenant, v_memory.memory_id, v_memory.version, v_topic, v_memory.namespace_id)
      on conflict on constraint memory_topic_pkey do update set version = excluded.version, topic_id = excluded.topic_id;
    v_came := v_came || v_topic;
    v_went := v_went || v_before;
  end loop;
  perform memdb._count_topics(p_tenant, v_came, v_went);
  return v_looked;
end $$;
comment on function memdb._assign_topics (integer, integer, jsonb, integer) is 'Put the next memories into topics; how many it looked at.';

-- _topic_label: what to call a topic: its entity, or the three words that tell its newest 20 memories from others.
--
-- A word counts in how many of them it occurs, times its idf in the namespace; those of the headings (date and
-- speaker), numbers and single characters are left out.
create or replace function memdb._topic_label (p_tenant integer, p_topic bigint)
  returns text
  language sql stable
begin atomic
  select coalesce(
    (select e.name
       from memdb.topic t
       join memdb.entity f on f.tenant_id = p_tenant and f.entity_id = t.entity_id
       join memdb.entity e on e.tenant_id = p_tenant and e.entity_id = coalesce(f.merged_into, f.entity_id)
      where t.tenant_id = p_tenant and t.topic_id = p_topic),
    (select string_agg(w.lexeme, ', ' order by w.worth desc, w.lexeme)
       from (select c.lexeme, c.memories * memdb._idf(s.documents, k.documents) as worth
               from (select l.lexeme, m.namespace_id, count(*) as memories
                       from (select m.* from memdb.memory_topic m
                              where m.tenant_id = p_tenant and m.topic_id = p_topic order by m.memory_id desc limit 20) m
                       join memdb.shown_memory_version v
                         on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
                       cross join lateral (
                         select x.lexeme from unnest(tsvector_to_array(v.keyword)) x (lexeme)
                         except
                         select x.lexeme from unnest(tsvector_to_array(memdb.keyword_text_v2(v.heading, null, v.language, '{}'))) x (lexeme)) l
                      where char_length(l.lexeme) between 2 and 40 and l.lexeme !~ E'^[\x010-9.,:/-]'
                      group by 1, 2
                      order by 3 desc, 1
                      limit 60) c
               left join memdb.namespace_stat s on s.tenant_id = p_tenant and s.namespace_id = c.namespace_id
               left join memdb.lexeme_stat k on k.tenant_id = p_tenant and k.namespace_id = c.namespace_id and k.lexeme = c.lexeme
              order by 2 desc, 1
              limit 3) w));
end;
comment on function memdb._topic_label (integer, bigint) is 'What to call a topic: its entity, or the three words that tell its newest 20 memories from others.';

-- _update_topic: give a topic that is due its centroid and its label anew, or remove it where it is empty.
--
-- The centroid is the mean of the newest 100 vectors.
create or replace function memdb._update_topic (p_tenant integer, p_topic bigint, p_model integer)
  returns void
  language plpgsql volatile
as $$
begin
  delete from memdb.topic t
   where t.tenant_id = p_tenant and t.topic_id = p_topic
     and not exists (select from memdb.memory_topic m where m.tenant_id = p_tenant and m.topic_id = p_topic)
     and not exists (select from memdb.topic o where o.tenant_id = p_tenant and o.moving_to = p_topic);
  if found then
    return;
  end if;
  insert into memdb.topic_centroid as c (tenant_id, model_id, topic_id, namespace_id, vector)
    select p_tenant, p_model, p_topic, n.namespace_id, l2_normalize(n.vector)
      from (select min(m.namespace_id) as namespace_id, avg(e.vector) as vector
              from (select m.* from memdb.memory_topic m
                     where m.tenant_id = p_tenant and m.topic_id = p_topic order by m.memory_id desc limit 100) m
              join memdb.embedding e
                on e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version) n
     where n.vector is not null
    on conflict on constraint topic_centroid_pkey do update set vector = excluded.vector;
  update memdb.topic t
     set label = coalesce(left(memdb._topic_label(p_tenant, p_topic), 500), t.label), is_due = false, changed_at = memdb.current_time()
   where t.tenant_id = p_tenant and t.topic_id = p_topic;
end $$;
comment on function memdb._update_topic (integer, bigint, integer) is 'Give a topic that is due its centroid and its label anew, or remove it where it is empty.';

-- _topic_batch: the next memories that want a topic: new ones first, then some of the older ones.
--
-- New is what lies beyond the newest memory seen before. What became visible late, got another version, its
-- vector or its second mention later is met on a round through the older ones: at each call up to
-- 20 x p_limit of them are looked at, as far as p_limit reaches.
create or replace function memdb._topic_batch (p_tenant integer, p_limit integer)
  returns setof memdb.memory
  language plpgsql volatile rows 100
as $$
declare
  v_at    memdb.topic_progress;
  v_new   bigint[];
  v_old   bigint[];
  v_until bigint;
begin
  insert into memdb.topic_progress (tenant_id) values (p_tenant) on conflict do nothing;
  select p.* into v_at from memdb.topic_progress p where p.tenant_id = p_tenant for update;
  v_new := array(select m.memory_id from memdb.memory m
                  where m.tenant_id = p_tenant and m.memory_id > v_at.seen_id order by m.memory_id limit p_limit);
  select max(s.memory_id) into v_until
    from (select m.memory_id from memdb.memory m
           where m.tenant_id = p_tenant and m.memory_id > v_at.swept_id and m.memory_id <= v_at.seen_id
           order by m.memory_id limit 20 * p_limit) s;
  v_old := array(
    select m.memory_id from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id > v_at.swept_id and m.memory_id <= v_until and m.status <> 'retracted'
       and not exists (select from memdb.memory_topic t
                        where t.tenant_id = p_tenant and t.memory_id = m.memory_id and t.version = m.version)
     order by m.memory_id
     limit p_limit - cardinality(v_new));
  if cardinality(v_old) > 0 and cardinality(v_old) = p_limit - cardinality(v_new) then
    v_until := v_old[cardinality(v_old)];
  end if;
  update memdb.topic_progress p
     set seen_id = greatest(p.seen_id, coalesce(v_new[cardinality(v_new)], 0)),
         -- The round begins again where it came to the end.
         swept_id = case when cardinality(v_new) < p_limit then coalesce(v_until, 0) else p.swept_id end
   where p.tenant_id = p_tenant;
  return query
    select m.* from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (v_new || v_old) and m.status <> 'retracted'
     order by m.memory_id;
end $$;
comment on function memdb._topic_batch (integer, integer) is 'The next memories that want a topic: new ones first, then some of the older ones.';

-- list_topics: the topics of some namespaces, largest first.
--
-- p_namespaces: these, exactly; null = all the caller may read. p_agent: as this agent may read.
-- label is an entity or words that tell the topic's memories from others; entity the name of the
-- entity, or null; members how many memories, of any status; changed_at when it last changed. A topic being merged into another
-- is left out. p_limit 1 to 1,000, p_offset from 0. Runs as the caller. Raises MD001, MD102, MD301, MD302.
create or replace function memdb.list_topics (
  p_tenant     integer,
  p_namespaces text[]  default null,
  p_agent      text    default null,
  p_limit      integer default 100,
  p_offset     integer default 0
)
  returns table (topic_id bigint, namespace text, label text, entity text, members integer, changed_at timestamptz)
  language plpgsql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, p_namespaces, p_agent);
  if (p_limit between 1 and 1000 and p_offset >= 0) is not true then
    perform memdb._raise('MD001', 'limit or offset is out of range', jsonb_build_object('field', 'limit'),
      'Pass a limit of 1 to 1,000 and an offset from 0.');
  end if;
  return query
    select t.topic_id, n.path, coalesce(t.label, 'topic ' || t.topic_id), coalesce(i.name, e.name), t.members, t.changed_at
      from memdb.topic t
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = t.namespace_id
      left join memdb.entity e on e.tenant_id = p_tenant and e.entity_id = t.entity_id
      left join memdb.entity i on i.tenant_id = p_tenant and i.entity_id = e.merged_into
     where t.tenant_id = p_tenant and (v_namespaces is null or t.namespace_id = any (v_namespaces)) and (t.moving_to is null or not t.moves_all)
     order by t.members desc, t.topic_id
     limit p_limit offset p_offset;
end $$;
comment on function memdb.list_topics (integer, text[], text, integer, integer) is 'The topics of some namespaces, largest first.';
