-- grouped: topics made for one namespace, and the nearest vectors searched by way of them; called by grouped.py.

-- make_topics: that many topics in a namespace; returns their ids.
create or replace function pg_temp.make_topics (p_tenant integer, p_namespace integer, p_count integer)
  returns bigint[]
  language sql
as $$
  with made as (
    insert into memdb.topic as t (tenant_id, namespace_id, is_due)
      select p_tenant, p_namespace, false from generate_series(1, p_count)
      returning t.topic_id)
  select array_agg(m.topic_id order by m.topic_id) from made m;
$$;

-- space_of: the one namespace of a tenant.
create or replace function pg_temp.space_of (p_tenant integer)
  returns integer
  language sql
as $$
  select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant;
$$;

-- place: give topics their centroids, and memories their topics.
create or replace function pg_temp.place (
  p_tenant integer, p_model integer, p_namespace integer, p_topics bigint[], p_centroids text[], p_memories bigint[], p_belongs bigint[])
  returns void
  language sql
as $$
  insert into memdb.topic_centroid (tenant_id, model_id, topic_id, namespace_id, vector)
    select p_tenant, p_model, c.topic_id, p_namespace, c.vector::halfvec from unnest(p_topics, p_centroids) c (topic_id, vector);
  insert into memdb.memory_topic (tenant_id, memory_id, version, topic_id, namespace_id)
    select p_tenant, m.memory_id, 1, m.topic_id, p_namespace from unnest(p_memories, p_belongs) m (memory_id, topic_id);
$$;

-- topics_of: the ids of the topics of a tenant; empty where there are none.
create or replace function pg_temp.topics_of (p_tenant integer)
  returns bigint[]
  language sql
as $$
  select coalesce(array_agg(t.topic_id order by t.topic_id), '{}') from memdb.topic t where t.tenant_id = p_tenant;
$$;

-- memories_of: the memories of a tenant that have a vector, in order.
create or replace function pg_temp.memories_of (p_tenant integer)
  returns bigint[]
  language sql
as $$
  select array_agg(e.memory_id order by e.memory_id) from memdb.embedding e where e.tenant_id = p_tenant;
$$;

-- beside_each_other: the vectors of a tenant once more, those of a topic side by side.
create or replace function pg_temp.beside_each_other (p_tenant integer, p_model integer)
  returns void
  language plpgsql
as $$
begin
  create temp table beside as
    select m.topic_id, e.memory_id, e.vector
      from memdb.memory_topic m
      join memdb.embedding e
        on e.tenant_id = m.tenant_id and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
     where m.tenant_id = p_tenant
     order by m.topic_id;
  alter table beside alter column vector set storage plain;
  create index on beside (topic_id);
  analyze beside;
end $$;

-- nearest_by_topic: the p_k nearest among the memories of the p_topics nearest topics, vectors looked up by key or side by side.
create or replace function pg_temp.nearest_by_topic (
  p_tenant integer, p_model integer, p_vector text, p_topics integer, p_k integer, p_side_by_side boolean)
  returns setof bigint
  language plpgsql
as $$
declare
  v_vector halfvec := p_vector;
  v_topics bigint[] := array(
    select c.topic_id from memdb.topic_centroid c
     where c.tenant_id = p_tenant and c.model_id = p_model order by c.vector <#> v_vector limit p_topics);
begin
  if p_side_by_side then
    return query select b.memory_id from beside b where b.topic_id = any (v_topics) order by b.vector <#> v_vector limit p_k;
  else
    return query
      select m.memory_id
        from memdb.memory_topic m
        cross join lateral (
          select e.vector from memdb.embedding e
           where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
          offset 0) e
       where m.tenant_id = p_tenant and m.topic_id = any (v_topics)
       order by e.vector <#> v_vector
       limit p_k;
  end if;
end $$;
