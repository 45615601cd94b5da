-- The ledger of models: what they were asked, what came of it, what it cost, and how much they may still cost.
--
-- A call is opened before it is sent and closed when the answer is there, in two short transactions
-- of their own: no connection is held while a model thinks, and a call whose caller died stays
-- visible as open. Opening asks the budget; tokens of open calls are held against it, so that many
-- callers at once cannot overdraw it together.

-- _budget_day: the day model budgets are counted by: UTC, whoever looks.
create or replace function memdb._budget_day (p_now timestamptz)
  returns date
  language sql immutable parallel safe
begin atomic
  select (p_now at time zone 'UTC')::date;
end;
comment on function memdb._budget_day (timestamptz) is 'The day model budgets are counted by: UTC, whoever looks.';

-- _model_budgets: the budgets that bind a namespace (null: any of the tenant) on a day, each with what it has used.
--
-- Each setting of model_budget_tokens_per_day is a budget of its own over all that lies below it:
-- a namespace is bound by its own, by those of the paths above it, and by the tenant's.
create or replace function memdb._model_budgets (p_tenant integer, p_namespace integer, p_day date)
  returns table (namespace_id integer, path text, tokens bigint, used bigint)
  language sql stable rows 5
begin atomic
  select p.namespace_id, n.path, (p.value #>> '{}')::bigint,
         (select coalesce(sum(u.tokens_in + u.tokens_out + u.tokens_held), 0)::bigint
            from memdb.model_usage u
            join memdb.namespace b on b.tenant_id = p_tenant and b.namespace_id = u.namespace_id
           where u.tenant_id = p_tenant and u.day = p_day
             and (n.path is null or b.path = n.path or starts_with(b.path, n.path || '/')))
    from memdb.policy p
    left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = p.namespace_id
    left join memdb.namespace at on at.tenant_id = p_tenant and at.namespace_id = p_namespace
   where p.tenant_id = p_tenant and p.key = 'model_budget_tokens_per_day' and jsonb_typeof(p.value) = 'number'
     and (p_namespace is null or n.path is null or n.path = at.path or starts_with(at.path, n.path || '/'));
end;
comment on function memdb._model_budgets (integer, integer, date) is 'The budgets that bind a namespace (null: any of the tenant) on a day, each with what it has used.';

-- _count_model_call: add to the day's usage; what is negative is taken away again.
create or replace function memdb._count_model_call (p_usage memdb.model_usage)
  returns void
  language sql volatile
begin atomic
  insert into memdb.model_usage as u (
      tenant_id, namespace_id, day, purpose, model, calls, failed, cached, tokens_held, tokens_in, tokens_out, cost)
    values ((p_usage).tenant_id, (p_usage).namespace_id, (p_usage).day, (p_usage).purpose, (p_usage).model,
            coalesce((p_usage).calls, 0), coalesce((p_usage).failed, 0), coalesce((p_usage).cached, 0),
            coalesce((p_usage).tokens_held, 0), coalesce((p_usage).tokens_in, 0), coalesce((p_usage).tokens_out, 0),
            coalesce((p_usage).cost, 0))
    on conflict on constraint model_usage_pkey
    do update set calls = u.calls + excluded.calls, failed = u.failed + excluded.failed, cached = u.cached + excluded.cached,
                  tokens_held = u.tokens_held + excluded.tokens_held, tokens_in = u.tokens_in + excluded.tokens_in,
                  tokens_out = u.tokens_out + excluded.tokens_out, cost = u.cost + excluded.cost;
end;
comment on function memdb._count_model_call (memdb.model_usage) is 'Add to the day''s usage; what is negative is taken away again.';

-- _model_cost: what a call costs by the prices in policy model_prices; null for a model without a price.
create or replace function memdb._model_cost (p_prices jsonb, p_model text, p_tokens_in integer, p_tokens_out integer)
  returns numeric
  language sql immutable parallel safe
begin atomic
  select ((p_prices -> p_model ->> 0)::numeric * p_tokens_in + (p_prices -> p_model ->> 1)::numeric * p_tokens_out) / 1000000;
end;
comment on function memdb._model_cost (jsonb, text, integer, integer) is 'What a call costs by the prices in policy model_prices; null for a model without a price.';

-- _known_answer: a good answer of the same model to the same request in the same namespace, if policy lets it be used again.
create or replace function memdb._known_answer (p_tenant integer, p_namespace integer, p_hash bytea, p_now timestamptz)
  returns text
  language sql stable
as $$
  select c.response from memdb.model_call c
   where c.tenant_id = p_tenant and c.prompt_hash = p_hash and c.outcome = 'ok' and c.response is not null
     and c.namespace_id = p_namespace
     and c.recorded_at > p_now - make_interval(secs => 86400 * (memdb._policy(p_tenant, 'model_reuse_days', p_namespace))::float8)
   order by c.recorded_at desc
   limit 1;
$$;
comment on function memdb._known_answer (integer, integer, bytea, timestamptz) is 'A good answer of the same model to the same request in the same namespace, if policy lets it be used again.';

-- _insert_model_call: write the row of a call, with the request where policy model_keep_text says so; returns its id.
--
-- Of what is forgotten, or is about to be, no words are kept: the empty hash marks such a call.
create or replace function memdb._insert_model_call (p_call memdb.model_call)
  returns bigint
  language sql volatile
as $$
  -- Locked until the call is written: whoever forgets one of these finds the call, or this finds it gone.
  with event as materialized (
    select e.event_id from memdb.shown_event e
     where e.tenant_id = (p_call).tenant_id and e.event_id = any ((p_call).event_ids)
     order by e.event_id for key share of e
  ), memory as materialized (
    select m.memory_id from memdb.shown_memory m
     where m.tenant_id = (p_call).tenant_id and m.memory_id = any ((p_call).memory_ids)
     order by m.memory_id for key share of m)
  insert into memdb.model_call (
      tenant_id, recorded_at, namespace_id, purpose, model, prompt_hash, event_ids, memory_ids, outcome, tokens_held, finished_at,
      request)
    select (p_call).tenant_id, (p_call).recorded_at, (p_call).namespace_id, (p_call).purpose, (p_call).model,
           case when w.is_kept then (p_call).prompt_hash else '' end, (p_call).event_ids, (p_call).memory_ids, (p_call).outcome,
           (p_call).tokens_held, (p_call).finished_at,
           case when w.is_kept and memdb._policy((p_call).tenant_id, 'model_keep_text', (p_call).namespace_id) = 'true'
                then (p_call).request end
      from (select (select count(*) from event) = (select count(distinct u.id) from unnest((p_call).event_ids) u (id))
               and (select count(*) from memory) = (select count(distinct u.id) from unnest((p_call).memory_ids) u (id))) w (is_kept)
  returning call_id;
$$;
comment on function memdb._insert_model_call (memdb.model_call) is 'Write the row of a call, with the request where policy model_keep_text says so; returns its id.';

-- open_model_call: ask whether a model may be called, and write down that it is.
--
-- p_purpose is a word (facts, importance, merge, links, summary ...), p_request all that determines
-- the answer: messages, schema, limits, temperature, seed. p_tokens is an estimate of what the call
-- will take, question and answer; it is held against the budget until record_model_call closes the
-- call, and for good if nobody does. p_event_ids and p_memory_ids are the events and memories whose
-- words are in the request: erasing one of them has to find it, and where one is gone no words are kept.
-- Returns one row; outcome is open: call the model, then record_model_call; cached: response is
-- an answer the same model gave to the same request within policy model_reuse_days (not charged);
-- over_budget: do not call, there is no row; wait_seconds are left until the day (UTC) ends.
-- Commit before calling the model. Raises MD001, MD301, MD302. Cost: two rows, and where a budget
-- is set the day's usage rows; callers of one tenant with a budget take turns for that moment.
create or replace function memdb.open_model_call (
  p_tenant     integer,
  p_namespace  text,
  p_purpose    text,
  p_model      text,
  p_request    jsonb,
  p_tokens     integer  default 0,
  p_event_ids  bigint[] default '{}',
  p_memory_ids bigint[] default '{}'
)
  returns table (call_id bigint, outcome text, response text, wait_seconds integer)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now  timestamptz := memdb.current_time();
  v_call memdb.model_call;
  v_use  memdb.model_usage;
begin
  perform memdb._authorize(p_tenant, true);
  if coalesce(p_purpose, '') !~ '^[a-z][a-z0-9_]{0,62}$' or coalesce(p_model, '') = '' or char_length(p_model) > 200
     or p_request is null or p_tokens >= 0 is not true or p_event_ids is null or p_memory_ids is null then
    perform memdb._raise('MD001', 'a call has a purpose (a small-case word), a model, a request and tokens of 0 or more',
      jsonb_build_object('field', 'purpose, model, request, tokens, event_ids or memory_ids'));
  end if;
  v_call.tenant_id    := p_tenant;
  v_call.recorded_at  := v_now;
  v_call.namespace_id := memdb._writable(p_tenant, p_namespace, null);
  v_call.purpose      := p_purpose;
  v_call.model        := p_model;
  v_call.prompt_hash  := sha256(convert_to(p_model || E'\n' || p_request::text, 'UTF8'));
  v_call.event_ids    := p_event_ids;
  v_call.memory_ids   := p_memory_ids;
  v_call.request      := p_request;
  v_use.tenant_id     := p_tenant;
  v_use.namespace_id  := v_call.namespace_id;
  v_use.day           := memdb._budget_day(v_now);
  v_use.purpose       := p_purpose;
  v_use.model         := p_model;
  response := memdb._known_answer(p_tenant, v_call.namespace_id, v_call.prompt_hash, v_now);
  if response is not null then
    outcome            := 'cached';
    v_call.finished_at := v_now;
    v_use.cached       := 1;
    p_tokens           := 0;
  elsif not memdb._within_budget(p_tenant, v_call.namespace_id, v_use.day, p_tokens) then
    outcome      := 'over_budget';
    wait_seconds := ceil(extract(epoch from (v_use.day + 1)::timestamp at time zone 'UTC' - v_now));
    return next;
    return;
  else
    outcome           := 'open';
    v_use.calls       := 1;
    v_use.tokens_held := p_tokens;
  end if;
  v_call.outcome     := outcome;
  v_call.tokens_held := p_tokens;
  call_id            := memdb._insert_model_call(v_call);
  perform memdb._count_model_call(v_use);
  return next;
end $$;
comment on function memdb.open_model_call (integer, text, text, text, jsonb, integer, bigint[], bigint[]) is 'Ask whether a model may be called, and write down that it is.';

-- _within_budget: whether all budgets over a namespace have room for some tokens.
--
-- Where there is a budget, callers of the tenant wait here for each other until they commit: two
-- that looked at the same moment would both see room that is there only once.
create or replace function memdb._within_budget (p_tenant integer, p_namespace integer, p_day date, p_tokens bigint)
  returns boolean
  language plpgsql volatile
as $$
begin
  if not exists (select from memdb.policy p where p.tenant_id = p_tenant and p.key = 'model_budget_tokens_per_day') then
    return true;
  end if;
  -- 1835363682 is "memb" in ASCII.
  perform pg_advisory_xact_lock(1835363682, p_tenant);
  return not exists (
    select from memdb._model_budgets(p_tenant, p_namespace, p_day) b where b.used + p_tokens > b.tokens);
end $$;
comment on function memdb._within_budget (integer, integer, date, bigint) is 'Whether all budgets over a namespace have room for some tokens.';

-- record_model_call: write down what came of a call of a model.
--
-- p_outcome: ok (the answer could be used), invalid (it could not; p_error says why), refused or
-- unavailable (no answer). Tokens are what the endpoint counted; where it does not count, give an
-- estimate. The cost is taken from policy model_prices. The answer is kept where policy
-- model_keep_text says so, up to 256 KiB; the error up to 4,096 characters. Returns false, and
-- changes nothing, where the call was closed before: it may be sent again after a lost connection.
-- Raises MD001 (unknown call or outcome), MD301, MD302.
create or replace function memdb.record_model_call (
  p_tenant     integer,
  p_call       bigint,
  p_outcome    text,
  p_tokens_in  integer default null,
  p_tokens_out integer default null,
  p_latency_ms real    default null,
  p_response   text    default null,
  p_error      text    default null
)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
  v_call  memdb.model_call;
  v_use   memdb.model_usage;
begin
  perform memdb._authorize(p_tenant, true);
  v_scope := memdb._namespaces_granted(p_tenant, true);
  select c.* into v_call from memdb.model_call c
   where c.tenant_id = p_tenant and c.call_id = p_call and (v_scope is null or c.namespace_id = any (v_scope))
     for no key update;
  if v_call.call_id is null or coalesce(p_outcome, '') not in ('ok', 'invalid', 'refused', 'unavailable')
     or p_tokens_in < 0 or p_tokens_out < 0 then
    perform memdb._raise('MD001', 'no such call, or no such outcome', jsonb_build_object('call', p_call, 'outcome', p_outcome),
      'Close a call that open_model_call opened, as ok, invalid, refused or unavailable.');
  end if;
  if v_call.outcome <> 'open' then
    return false;
  end if;
  update memdb.model_call c
     set outcome = p_outcome, tokens_in = p_tokens_in, tokens_out = p_tokens_out, latency_ms = p_latency_ms,
         cost = memdb._model_cost(memdb._policy(p_tenant, 'model_prices', c.namespace_id), c.model,
                                  coalesce(p_tokens_in, 0), coalesce(p_tokens_out, 0)),
         finished_at = memdb.current_time(), tokens_held = 0,
         -- An empty hash: what it was about was forgotten meanwhile.
         error = case when c.prompt_hash <> '' then left(p_error, 4096) end,
         response = case when c.prompt_hash <> '' and memdb._policy(p_tenant, 'model_keep_text', c.namespace_id) = 'true'
                         then left(p_response, 262144) end
   where c.tenant_id = p_tenant and c.call_id = p_call and c.recorded_at = v_call.recorded_at
  returning c.cost into v_use.cost;
  v_use.tenant_id    := p_tenant;
  v_use.namespace_id := v_call.namespace_id;
  v_use.day          := memdb._budget_day(v_call.recorded_at);
  v_use.purpose      := v_call.purpose;
  v_use.model        := v_call.model;
  v_use.failed       := (p_outcome <> 'ok')::integer;
  v_use.tokens_held  := -v_call.tokens_held;
  v_use.tokens_in    := p_tokens_in;
  v_use.tokens_out   := p_tokens_out;
  perform memdb._count_model_call(v_use);
  return true;
end $$;
comment on function memdb.record_model_call (integer, bigint, text, integer, integer, real, text, text) is 'Write down what came of a call of a model.';

-- model_spend: what models were used for on a day, and what it cost.
--
-- p_namespace null: all the caller may read; otherwise that namespace and those below it. p_day is
-- a day in UTC, null today. One row for each namespace, purpose and model: calls sent, those of
-- them that failed, answers used again without a call, tokens (held: of calls still open), and cost in
-- the currency of policy model_prices. Raises MD102, MD301.
create or replace function memdb.model_spend (
  p_tenant    integer,
  p_namespace text default null,
  p_day       date default null
)
  returns table (namespace text, purpose text, model text, calls integer, failed integer, cached integer, tokens_held bigint,
                 tokens_in bigint, tokens_out bigint, cost numeric)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_scope := memdb._readable(p_tenant, case when p_namespace is not null then array[p_namespace] end, null);
  if p_namespace is not null then
    v_scope := array(select n.namespace_id from memdb.namespace n
                      where n.tenant_id = p_tenant and (n.path = p_namespace or starts_with(n.path, p_namespace || '/')));
  end if;
  return query
    select n.path, u.purpose, u.model, u.calls, u.failed, u.cached, u.tokens_held, u.tokens_in, u.tokens_out, u.cost
      from memdb.model_usage u
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = u.namespace_id
     where u.tenant_id = p_tenant and u.day = coalesce(p_day, memdb._budget_day(memdb.current_time()))
       and (v_scope is null or u.namespace_id = any (v_scope))
     order by n.path, u.purpose, u.model;
end $$;
comment on function memdb.model_spend (integer, text, date) is 'What models were used for on a day, and what it cost.';

-- model_budgets: the day's token budgets that bind a namespace, and how much of each is left.
--
-- p_namespace null: all of the tenant, for callers who may read all of it. namespace is where the
-- budget was set (null: for the tenant): it counts what is used there and below. Held tokens of
-- open calls count as used. Raises MD102, MD301, MD302.
create or replace function memdb.model_budgets (
  p_tenant    integer,
  p_namespace text default null
)
  returns table (namespace text, tokens bigint, used bigint, remaining bigint)
  language plpgsql stable security definer rows 5
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_scope := memdb._readable(p_tenant, case when p_namespace is not null then array[p_namespace] end, null);
  return query
    select b.path, b.tokens, b.used, greatest(b.tokens - b.used, 0)
      from memdb._model_budgets(p_tenant, case when p_namespace is not null then v_scope[1] end,
                                memdb._budget_day(memdb.current_time())) b
     where p_namespace is not null or v_scope is null or b.namespace_id = any (v_scope)
     order by b.path nulls first;
end $$;
comment on function memdb.model_budgets (integer, text) is 'The day''s token budgets that bind a namespace, and how much of each is left.';

-- _model_figures: the figures of health about models, for some tenants and namespaces (null: all of them).
create or replace function memdb._model_figures (p_tenants integer[], p_namespaces integer[])
  returns table (metric text, value double precision)
  language sql stable rows 5
begin atomic
  with today as (select memdb._budget_day(memdb.current_time()) as day),
  used as (
    select coalesce(sum(u.calls), 0) as calls, coalesce(sum(u.failed), 0) as failed,
           coalesce(sum(u.tokens_in + u.tokens_out), 0) as tokens
      from today d
      join memdb.model_usage u on u.day = d.day
     where u.tenant_id = any (p_tenants) and (p_namespaces is null or u.namespace_id = any (p_namespaces)))
  select 'model_tokens', u.tokens::double precision from used u
  union all
  -- A handful of calls says nothing.
  select 'model_failures', case when u.calls < 10 then 0 else 100.0 * u.failed / u.calls end from used u
  union all
  select 'model_budget', coalesce(max(100.0 * b.used / greatest(b.tokens, 1)), 0)
    from today d
    cross join unnest(p_tenants) t (tenant_id)
    cross join lateral memdb._model_budgets(t.tenant_id, null, d.day) b
   where p_namespaces is null or b.namespace_id = any (p_namespaces);
end;
comment on function memdb._model_figures (integer[], integer[]) is 'The figures of health about models, for some tenants and namespaces (null: all of them).';
