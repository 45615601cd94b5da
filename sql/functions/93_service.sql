-- What the HTTP service asks for itself: how far behind the workers are, and what models cost.

-- service_state: a few figures over all tenants, for readiness and metrics.
--
-- Figures only, of nobody in particular. Cost: the open work of all tenants, up to 100,000 rows of it.
-- For the service (MD303).
create or replace function memdb.service_state ()
  returns table (metric text, value double precision)
  language plpgsql stable security definer rows 8
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_service();
  return query
    with work as (
      select x.tenant_id, x.event_id, x.state
        from memdb.extraction x
       where x.state in ('pending', 'leased', 'failed')
       limit 100000),
    oldest as (
      select min(e.recorded_at) as at
        from (select w.tenant_id, min(w.event_id) as event_id from work w group by w.tenant_id) w
        join memdb.event e on e.tenant_id = w.tenant_id and e.event_id = w.event_id),
    usage as (
      select sum(u.calls) as calls, sum(u.tokens_in + u.tokens_out) as tokens, sum(u.cost) as cost
        from memdb.model_usage u
       where u.day = (memdb.current_time() at time zone 'UTC')::date)
    select 'events_waiting', (select count(*) from work)::double precision
    union all
    select 'oldest_wait_seconds', coalesce(extract(epoch from memdb.current_time() - o.at), 0)::double precision from oldest o
    union all
    select 'vectors_waiting', (select count(*) from (select from memdb.embedding_queue q limit 100000) q)::double precision
    union all
    select 'reviews_open', (select count(*) from memdb.review_item i where i.state = 'open')::double precision
    union all
    select v.metric, coalesce(v.value, 0)::double precision
      from usage u
      cross join lateral (values ('model_calls_today', u.calls::numeric), ('model_tokens_today', u.tokens::numeric),
                                 ('model_cost_today', u.cost)) v (metric, value);
end $$;
comment on function memdb.service_state () is 'A few figures over all tenants, for readiness and metrics.';
