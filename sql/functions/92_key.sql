-- Keys of the HTTP service: made, found, rotated, revoked; and the audit of what they did.
--
-- The secret never comes here: the program makes it, shows it once, and gives its SHA-256 and its
-- first characters. A request of a key then runs as memdb_reader, memdb_writer or memdb_operator,
-- with what the key may see declared for the transaction (05_access).

-- _require_service: stop unless the caller is the HTTP service, or administers memdb.
create or replace function memdb._require_service ()
  returns void
  language plpgsql stable
as $$
begin
  if not pg_has_role(memdb._caller(), 'memdb_service', 'member') and not memdb._is_operator() then
    perform memdb._raise('MD303', 'only the service may do this', null, 'Connect with a role that is in memdb_service.');
  end if;
end $$;
comment on function memdb._require_service () is 'Stop unless the caller is the HTTP service, or administers memdb.';

-- _check_key: refuse rights that no key can have.
create or replace function memdb._check_key (
  p_name       text,
  p_role       text,
  p_hash       bytea,
  p_namespaces text[],
  p_agents     text[],
  p_expires_at timestamptz
)
  returns void
  language plpgsql stable
as $$
begin
  if p_name is null or p_name = '' or char_length(p_name) > 200 then
    perform memdb._raise('MD001', 'the name of a key has 1 to 200 characters', jsonb_build_object('field', 'name'));
  elsif p_role is null or p_role not in ('reader', 'writer', 'operator') then
    perform memdb._raise('MD001', 'the role of a key is reader, writer or operator', jsonb_build_object('field', 'role'));
  elsif p_hash is null or octet_length(p_hash) <> 32 then
    perform memdb._raise('MD001', 'the hash of a key is a SHA-256', jsonb_build_object('field', 'hash'),
      'Make keys with: memdb key create');
  elsif p_role = 'operator' and (p_namespaces is not null or p_agents is not null) then
    perform memdb._raise('MD001', 'an operator administers all of memdb and cannot be bound', jsonb_build_object('field', 'role'),
      'Make a writer for some namespaces or agents.');
  elsif cardinality(p_namespaces) = 0 or exists (
      select from unnest(p_namespaces) n (path)
       where n.path is null or char_length(n.path) not between 1 and 255 or n.path ~ '(^/|/$|//|[[:cntrl:]])') then
    perform memdb._raise('MD001', 'malformed namespace', jsonb_build_object('field', 'namespaces'),
      'A namespace is a path like team/support; null is all of them.');
  elsif cardinality(p_agents) = 0 or exists (
      select from unnest(p_agents) a (agent_id)
       where a.agent_id is null or char_length(a.agent_id) not between 1 and 200 or a.agent_id ~ '[[:cntrl:]]') then
    perform memdb._raise('MD001', 'the name of an agent has 1 to 200 characters, none of them a control character',
      jsonb_build_object('field', 'agents'));
  elsif not coalesce(memdb._is_moment(p_expires_at), true) then
    perform memdb._raise('MD006', 'this is no time a key can end at', jsonb_build_object('field', 'expires_at'));
  end if;
end $$;
comment on function memdb._check_key (text, text, bytea, text[], text[], timestamptz) is 'Refuse rights that no key can have.';

-- _audit: write one row of the audit.
create or replace function memdb._audit (p_tenant integer, p_key bigint, p_action text, p_request text, p_detail jsonb)
  returns void
  language sql volatile
begin atomic
  insert into memdb.audit (tenant_id, key_id, role_name, action, request_id, detail)
    values (p_tenant, p_key, memdb._caller(), left(p_action, 200), left(p_request, 200), coalesce(p_detail, '{}'));
end;
comment on function memdb._audit (integer, bigint, text, text, jsonb) is 'Write one row of the audit.';

-- create_api_key: let a program that knows a secret use the HTTP service.
--
-- p_prefix: the first characters of the secret, for people to tell keys apart; p_hash: its SHA-256.
-- p_role: reader, writer (of the tenant, or of p_namespaces and the paths below them, and as one of
-- p_agents), or operator, which administers every tenant. Returns the id. Operators only (MD303);
-- raises MD001, MD006, MD101. The secret must be random (256 bits): its hash is not salted.
create or replace function memdb.create_api_key (
  p_tenant     integer,
  p_name       text,
  p_prefix     text,
  p_hash       bytea,
  p_role       text        default 'reader',
  p_namespaces text[]      default null,
  p_agents     text[]      default null,
  p_expires_at timestamptz default null
)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_id bigint;
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_key(p_name, p_role, p_hash, p_namespaces, p_agents, p_expires_at);
  insert into memdb.api_key as k (tenant_id, name, role, prefix, key_hash, namespaces, agents, expires_at)
    values (p_tenant, p_name, p_role, p_prefix, p_hash, p_namespaces, p_agents, p_expires_at)
    returning k.key_id into v_id;
  perform memdb._audit(p_tenant, v_id, 'key.create', null, jsonb_build_object(
    'name', p_name, 'role', p_role, 'namespaces', p_namespaces, 'agents', p_agents, 'expires_at', p_expires_at));
  return v_id;
exception when check_violation or not_null_violation then
  perform memdb._raise('MD001', 'the prefix of a key has 4 to 40 characters', jsonb_build_object('field', 'prefix'));
end $$;
comment on function memdb.create_api_key (integer, text, text, bytea, text, text[], text[], timestamptz) is 'Let a program that knows a secret use the HTTP service.';

-- find_api_key: what the key with a hash may do.
--
-- For the service, which knows nothing of its caller yet. Raises MD304 where no key has the hash, or
-- it has expired or been revoked: which of these, a stranger need not know. Cost: one look-up.
create or replace function memdb.find_api_key (p_hash bytea)
  returns table (tenant_id integer, tenant text, key_id bigint, name text, role text, namespaces text[], agents text[],
                 expires_at timestamptz)
  language plpgsql stable security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_service();
  return query
    select k.tenant_id, t.name, k.key_id, k.name, k.role, k.namespaces, k.agents, k.expires_at
      from memdb.api_key k
      join memdb.tenant t on t.tenant_id = k.tenant_id
     where k.key_hash = p_hash and k.revoked_at is null
       and (k.expires_at is null or k.expires_at > memdb.current_time());
  if not found then
    perform memdb._raise('MD304', 'the key is not known, has expired or was revoked', null,
      'Send Authorization: Bearer KEY; an operator makes keys with: memdb key create');
  end if;
end $$;
comment on function memdb.find_api_key (bytea) is 'What the key with a hash may do.';

-- _open_key: lock a key that is neither revoked nor gone.
create or replace function memdb._open_key (p_tenant integer, p_key bigint)
  returns memdb.api_key
  language plpgsql volatile
as $$
declare
  v_key memdb.api_key;
begin
  select k.* into v_key from memdb.api_key k where k.tenant_id = p_tenant and k.key_id = p_key for update;
  if not found then
    perform memdb._raise('MD109', 'no such key', jsonb_build_object('key_id', p_key), 'memdb key list shows them.');
  end if;
  return v_key;
end $$;
comment on function memdb._open_key (integer, bigint) is 'Lock a key that is neither revoked nor gone.';

-- revoke_api_key: take a key back, for good.
--
-- Returns whether it still counted. The service may remember a key for some seconds. Operators
-- only (MD303); raises MD109 for an unknown key, MD101.
create or replace function memdb.revoke_api_key (p_tenant integer, p_key bigint)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_key memdb.api_key;
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, true);
  v_key := memdb._open_key(p_tenant, p_key);
  if v_key.revoked_at is not null then
    return false;
  end if;
  update memdb.api_key k set revoked_at = memdb.current_time() where k.tenant_id = p_tenant and k.key_id = p_key;
  perform memdb._audit(p_tenant, p_key, 'key.revoke', null, null);
  return coalesce(v_key.expires_at > memdb.current_time(), true);
end $$;
comment on function memdb.revoke_api_key (integer, bigint) is 'Take a key back, for good.';

-- rotate_api_key: give a key another secret; the old one counts for a while yet.
--
-- A new key with the name, rights and end of the old one; the old one ends p_grace_seconds from now
-- (0 to 30 days), or when it would have ended. Returns the new id. Operators only (MD303); raises
-- MD109, MD201 for a key that was revoked, MD001, MD101.
create or replace function memdb.rotate_api_key (
  p_tenant        integer,
  p_key           bigint,
  p_prefix        text,
  p_hash          bytea,
  p_grace_seconds integer default 86400
)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_key memdb.api_key;
  v_id  bigint;
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, true);
  if p_grace_seconds is null or p_grace_seconds not between 0 and 2592000 then
    perform memdb._raise('MD001', 'the grace of a key is 0 to 2,592,000 seconds', jsonb_build_object('field', 'grace_seconds'));
  end if;
  v_key := memdb._open_key(p_tenant, p_key);
  if v_key.revoked_at is not null or v_key.expires_at <= memdb.current_time() then
    perform memdb._raise('MD201', 'this key does not count any more', jsonb_build_object('key_id', p_key),
      'Make a new one: memdb key create');
  end if;
  v_id := memdb.create_api_key(p_tenant, v_key.name, p_prefix, p_hash, v_key.role, v_key.namespaces, v_key.agents, v_key.expires_at);
  update memdb.api_key k
     set expires_at = least(k.expires_at, memdb.current_time() + make_interval(secs => p_grace_seconds))
   where k.tenant_id = p_tenant and k.key_id = p_key;
  perform memdb._audit(p_tenant, p_key, 'key.rotate', null, jsonb_build_object('key_id', v_id, 'grace_seconds', p_grace_seconds));
  return v_id;
end $$;
comment on function memdb.rotate_api_key (integer, bigint, text, bytea, integer) is 'Give a key another secret; the old one counts for a while yet.';

-- list_api_keys: the keys of a tenant, newest first, with whether they still count.
--
-- p_tenant null: of all tenants. state: active, expired or revoked. Operators only (MD303).
create or replace function memdb.list_api_keys (p_tenant integer default null)
  returns table (tenant_id integer, tenant text, key_id bigint, name text, role text, prefix text, namespaces text[],
                 agents text[], state text, created_at timestamptz, expires_at timestamptz, revoked_at timestamptz,
                 last_used_at timestamptz)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  return query
    select k.tenant_id, t.name, k.key_id, k.name, k.role, k.prefix, k.namespaces, k.agents,
           case when k.revoked_at is not null then 'revoked'
                when k.expires_at <= memdb.current_time() then 'expired' else 'active' end,
           k.created_at, k.expires_at, k.revoked_at, k.last_used_at
      from memdb.api_key k
      join memdb.tenant t on t.tenant_id = k.tenant_id
     where p_tenant is null or k.tenant_id = p_tenant
     order by k.key_id desc;
end $$;
comment on function memdb.list_api_keys (integer) is 'The keys of a tenant, newest first, with whether they still count.';

-- touch_api_keys: note when keys were used last, and how often since they were noted before.
--
-- Arrays of the same length, one element a key. For the service, which gathers them: a row
-- lock for each request would make requests of a key wait for each other. Unknown keys are passed
-- over. Returns how many were noted. Rows are locked in the order of their ids.
create or replace function memdb.touch_api_keys (p_keys bigint[], p_used_at timestamptz[], p_uses integer[])
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_noted integer;
begin
  perform memdb._require_service();
  perform from memdb.api_key k where k.key_id = any (p_keys) order by k.tenant_id, k.key_id for update;
  with used as (
    update memdb.api_key k
       set last_used_at = greatest(k.last_used_at, u.used_at)
      from unnest(p_keys, p_used_at, p_uses) u (key_id, used_at, uses)
     where k.key_id = u.key_id
    returning k.tenant_id, k.key_id, u.uses)
  select count(*)
    into v_noted
    from used u
    cross join lateral memdb._audit(u.tenant_id, u.key_id, 'key.use', null, jsonb_build_object('requests', u.uses));
  return v_noted;
end $$;
comment on function memdb.touch_api_keys (bigint[], timestamptz[], integer[]) is 'Note when keys were used last, and how often since they were noted before.';

-- close_request: write down, in the transaction of a write, who it was and that it happened.
--
-- p_key 0: no key was asked for. p_action: what was asked; p_detail: of which memory or event, no
-- contents. With an idempotency key the second transaction that closes it is refused (MD202) and so
-- undone: of two that come at once, one waits here for the other. Where the transaction wrote nothing,
-- nothing is written here. For the service; raises MD301, MD303.
create or replace function memdb.close_request (
  p_tenant          integer,
  p_key             bigint,
  p_request         text,
  p_action          text,
  p_detail          jsonb default '{}',
  p_idempotency_key text  default null,
  p_request_hash    bytea default null
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  if memdb._service_tenant() is null and not memdb._is_operator() then
    perform memdb._require_service();
  end if;
  if p_key is null or p_request is null or p_action is null or p_action = ''
     or char_length(p_idempotency_key) not between 1 and 255 or (p_idempotency_key is null) <> (p_request_hash is null) then
    perform memdb._raise('MD001', 'a request has a key, an id and an action; an idempotency key of 1 to 255 characters has a hash',
      jsonb_build_object('field', 'request'));
  end if;
  if pg_current_xact_id_if_assigned() is null then
    return;
  end if;
  perform memdb._audit(p_tenant, nullif(p_key, 0), p_action, p_request, p_detail);
  if p_idempotency_key is not null then
    insert into memdb.api_request as r (tenant_id, key_id, idempotency_key, request_hash, request_id)
      values (p_tenant, p_key, p_idempotency_key, p_request_hash, p_request)
      on conflict on constraint api_request_pkey do update set request_id = r.request_id where r.request_id = p_request;
    if not found then
      perform memdb._raise('MD202', 'this request was carried out already', jsonb_build_object('field', 'Idempotency-Key'),
        'Send it again in a moment: the answer is then the first one.');
    end if;
  end if;
end $$;
comment on function memdb.close_request (integer, bigint, text, text, jsonb, text, bytea) is 'Write down, in the transaction of a write, who it was and that it happened.';

-- find_request: what was answered to a write with an idempotency key; no row where there was none.
--
-- Raises MD202 where the key came with another request (p_request_hash), or where the answer is not
-- known, because the service died after the write or still works on it. For the service.
create or replace function memdb.find_request (p_tenant integer, p_key bigint, p_idempotency_key text, p_request_hash bytea)
  returns table (status integer, answer jsonb)
  language plpgsql stable security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_request memdb.api_request;
begin
  perform memdb._authorize(p_tenant, true);
  select r.* into v_request
    from memdb.api_request r
   where r.tenant_id = p_tenant and r.key_id = p_key and r.idempotency_key = p_idempotency_key;
  if not found then
    return;
  elsif v_request.request_hash is distinct from p_request_hash then
    perform memdb._raise('MD202', 'the idempotency key came with another request', jsonb_build_object('field', 'Idempotency-Key'),
      'Use a new key for a new request.');
  elsif v_request.status is null then
    perform memdb._raise('MD202', 'the request was carried out, and its answer is not known',
      jsonb_build_object('field', 'Idempotency-Key'), 'Read what became of it; do not send it with a new key.');
  end if;
  return query select v_request.status::integer, v_request.answer;
end $$;
comment on function memdb.find_request (integer, bigint, text, bytea) is 'What was answered to a write with an idempotency key; no row where there was none.';

-- keep_answer: keep what was answered to a write with an idempotency key, for a day.
--
-- Older ones of the tenant go on the way, up to 100 at a time. For the service; raises MD301.
create or replace function memdb.keep_answer (
  p_tenant          integer,
  p_key             bigint,
  p_idempotency_key text,
  p_status          integer,
  p_answer          jsonb
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  if p_status is null or p_status not between 100 and 599 or p_answer is null then
    perform memdb._raise('MD001', 'an answer has a status and a body', jsonb_build_object('field', 'status'));
  end if;
  update memdb.api_request r set status = p_status, answer = p_answer
   where r.tenant_id = p_tenant and r.key_id = p_key and r.idempotency_key = p_idempotency_key and r.status is null;
  delete from memdb.api_request r
   where r.ctid = any (array(
           select o.ctid from memdb.api_request o
            where o.tenant_id = p_tenant and o.recorded_at < memdb.current_time() - interval '1 day'
            order by o.recorded_at limit 100 for update skip locked));
end $$;
comment on function memdb.keep_answer (integer, bigint, text, integer, jsonb) is 'Keep what was answered to a write with an idempotency key, for a day.';

-- list_audit: what was written through the service, and what became of its keys, newest first.
--
-- p_after: the last audit_id of the page before; p_limit 1 to 1,000. Operators only (MD303);
-- raises MD001, MD101. Cost: one index range.
create or replace function memdb.list_audit (p_tenant integer, p_after bigint default null, p_limit integer default 50)
  returns table (audit_id bigint, recorded_at timestamptz, key_id bigint, key_name text, role_name text, action text,
                 request_id text, detail jsonb)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, false);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform memdb._raise('MD001', 'a page holds 1 to 1,000 rows', jsonb_build_object('field', 'limit'));
  end if;
  return query
    select a.audit_id, a.recorded_at, a.key_id, k.name, a.role_name::text, a.action, a.request_id, a.detail
      from memdb.audit a
      left join memdb.api_key k on k.tenant_id = a.tenant_id and k.key_id = a.key_id
     where a.tenant_id = p_tenant and (p_after is null or a.audit_id < p_after)
     order by a.audit_id desc
     limit p_limit;
end $$;
comment on function memdb.list_audit (integer, bigint, integer) is 'What was written through the service, and what became of its keys, newest first.';
