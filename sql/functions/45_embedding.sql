-- Encoders: which ones a tenant keeps, and what is still to be encoded.
--
-- A memory version has either a vector of a model or a row in embedding_queue. Encoding needs
-- a model and may fail or take long, so it runs outside: pending_embeddings leases work,
-- record_embeddings (47) stores the answer, fail_embedding puts the work back.

-- _find_model: the encoder of that name.
--
-- Raises MD105.
create or replace function memdb._find_model (p_tenant integer, p_name text)
  returns memdb.embedding_model
  language plpgsql stable
as $$
declare
  v_model memdb.embedding_model;
begin
  select m.* into v_model from memdb.embedding_model m where m.tenant_id = p_tenant and m.name = p_name;
  if not found then
    perform memdb._raise('MD105', 'no such embedding model', jsonb_build_object('model', left(p_name, 200)),
      'Register it first: memdb.register_embedding_model(tenant, name, dimensions).');
  end if;
  return v_model;
end $$;
comment on function memdb._find_model (integer, text) is 'The encoder of that name.';

-- register_embedding_model: make an encoder known to a tenant, or find it.
--
-- The first becomes active, which recall searches; a further one is filling beside it. Nothing
-- is queued: enqueue_embeddings does that in bounded steps. p_dimensions: 1 to 3,800.
-- p_fingerprint tells two encoders of one name apart (a hash of its files); null matches any,
-- and a row without one takes the first that is given.
-- Raises MD001, MD203 where the name is taken with other dimensions or another fingerprint,
-- MD301.
create or replace function memdb.register_embedding_model (
  p_tenant      integer,
  p_name        text,
  p_dimensions  integer,
  p_fingerprint text default null
)
  returns table (model_id integer, state text, is_new boolean)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_model memdb.embedding_model;
begin
  perform memdb._authorize(p_tenant, true);
  if p_name is null or p_name = '' or char_length(p_name) > 200 or p_dimensions between 1 and 3800 is not true then
    perform memdb._raise('MD001', 'a model has a name of 1 to 200 characters and 1 to 3,800 dimensions',
      jsonb_build_object('field', case when p_dimensions between 1 and 3800 then 'name' else 'dimensions' end));
  end if;
  -- One registration at a time: of two first ones only one can become active.
  perform from memdb.tenant t where t.tenant_id = p_tenant for no key update;
  select m.* into v_model from memdb.embedding_model m where m.tenant_id = p_tenant and m.name = p_name;
  if not found then
    return query
      insert into memdb.embedding_model as m (tenant_id, name, dimensions, state, fingerprint)
        values (p_tenant, p_name, p_dimensions,
                case when exists (select from memdb.embedding_model a where a.tenant_id = p_tenant and a.state = 'active')
                     then 'filling' else 'active' end, p_fingerprint)
        returning m.model_id, m.state, true;
    return;
  end if;
  if v_model.dimensions <> p_dimensions or v_model.fingerprint <> p_fingerprint then
    perform memdb._raise('MD203', 'another model of that name is registered',
      jsonb_build_object('model', p_name, 'dimensions', v_model.dimensions, 'fingerprint', v_model.fingerprint),
      'Vectors of two encoders cannot be compared: register this one under another name.');
  end if;
  update memdb.embedding_model m set fingerprint = p_fingerprint
   where m.tenant_id = p_tenant and m.model_id = v_model.model_id and m.fingerprint is null and p_fingerprint is not null;
  return query select v_model.model_id, v_model.state, false;
end $$;
comment on function memdb.register_embedding_model (integer, text, integer, text) is 'Make an encoder known to a tenant, or find it.';

-- enqueue_embeddings: queue memories that have no vector of a model yet, one bounded step.
--
-- Looks at up to p_limit (1 to 10,000) memories with an id above p_after, in id order, and queues
-- the current version of those without a vector; a version that failed for good gets a new
-- chance. Returns how many it queued and the last id it looked at: pass that as p_after until it
-- comes back null. Only namespaces the caller may read. Raises MD001, MD105, MD301.
-- Cost: one index range and three look-ups a memory.
create or replace function memdb.enqueue_embeddings (
  p_tenant integer,
  p_model  text,
  p_limit  integer default 1000,
  p_after  bigint  default 0
)
  returns table (enqueued integer, last_memory_id bigint)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_model_id   integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 10000);
  v_model_id := (memdb._find_model(p_tenant, p_model)).model_id;
  v_namespaces := memdb._readable(p_tenant, null, null);
  return query
    with page as (
      select m.memory_id, m.version, m.namespace_id
        from memdb.memory m
       where m.tenant_id = p_tenant and m.memory_id > p_after
         and (v_namespaces is null or m.namespace_id = any (v_namespaces))
       order by m.memory_id
       limit p_limit),
    queued as (
      insert into memdb.embedding_queue as q (tenant_id, model_id, memory_id, version, namespace_id)
        select p_tenant, v_model_id, p.memory_id, p.version, p.namespace_id
          from page p
         where not memdb._has_vector(p_tenant, v_model_id, p.memory_id, p.version)
         order by p.memory_id
        on conflict on constraint embedding_queue_pkey
        do update set attempts = 0, leased_until = null, error = null where q.attempts >= memdb._max_attempts()
        returning q.memory_id)
    select (select count(*)::integer from queued), (select max(p.memory_id) from page p);
end $$;
comment on function memdb.enqueue_embeddings (integer, text, integer, bigint) is 'Queue memories that have no vector of a model yet, one bounded step.';

-- _max_attempts: how often a text is given to the encoder before it counts as failed for good.
create or replace function memdb._max_attempts ()
  returns integer
  language sql immutable parallel safe
begin atomic
  select 8;
end;
comment on function memdb._max_attempts () is 'How often a text is given to the encoder before it counts as failed for good.';

-- _check_limit: refuse a row limit that is null, below 1 or above what one call may do.
create or replace function memdb._check_limit (p_limit integer, p_most integer)
  returns void
  language plpgsql volatile
as $$
begin
  if p_limit between 1 and p_most is not true then
    perform memdb._raise('MD001', 'limit is out of range', jsonb_build_object('field', 'limit'), format('Pass 1 to %s.', p_most));
  end if;
end $$;
comment on function memdb._check_limit (integer, integer) is 'Refuse a row limit that is null, below 1 or above what one call may do.';

-- _claim_embeddings: lease queued versions of a model to the caller and give back their ids.
--
-- An attempt is counted when the lease is taken, so that a text which kills its worker is not
-- tried for ever.
create or replace function memdb._claim_embeddings (
  p_tenant        integer,
  p_model         text,
  p_limit         integer,
  p_lease_seconds integer
)
  returns table (memory_id bigint, version integer)
  language plpgsql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now        timestamptz;
  v_namespaces integer[];
  v_model_id   integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 10000);
  if p_lease_seconds between 1 and 86400 is not true then
    perform memdb._raise('MD001', 'a lease lasts 1 second to 1 day', jsonb_build_object('field', 'lease_seconds'));
  end if;
  v_now := memdb.current_time();
  v_model_id := (memdb._find_model(p_tenant, p_model)).model_id;
  v_namespaces := memdb._readable(p_tenant, null, null);
  return query
    -- An array runs once, as a join the limit would start anew for every outer row; and by ctid
    -- the update finds the rows it locked without statistics of a table that swings from empty to full.
    update memdb.embedding_queue q
       set leased_until = v_now + make_interval(secs => p_lease_seconds), attempts = q.attempts + 1
     where q.tenant_id = p_tenant
       and q.ctid = any (array(
         select f.ctid
           from memdb.embedding_queue f
          where f.tenant_id = p_tenant and f.model_id = v_model_id
            and (f.leased_until is null or f.leased_until <= v_now)
            and f.attempts < memdb._max_attempts()
            and (v_namespaces is null or f.namespace_id = any (v_namespaces))
          order by f.memory_id, f.version
          limit p_limit
            for update skip locked))
    returning q.memory_id, q.version;
end $$;
comment on function memdb._claim_embeddings (integer, text, integer, integer) is 'Lease queued versions of a model to the caller and give back their ids.';

-- pending_embeddings: lease memory versions that still need a vector, with the words to encode.
--
-- Up to p_limit (1 to 10,000), lowest memory id first, invisible to other workers for
-- p_lease_seconds; after that they are handed out again, at most 8 times. text is heading and
-- text, as the keyword index has them. Commit before encoding: no transaction should wait for a
-- model. Words come through the caller's row security. Raises MD001, MD105, MD301.
-- Cost: an index scan from the front of the queue.
create or replace function memdb.pending_embeddings (
  p_tenant        integer,
  p_model         text,
  p_limit         integer default 100,
  p_lease_seconds integer default 300
)
  returns table (memory_id bigint, version integer, text text)
  language plpgsql volatile rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  return query
    select v.memory_id, v.version, coalesce(nullif(v.heading, '') || ': ', '') || v.text
      from memdb._claim_embeddings(p_tenant, p_model, p_limit, p_lease_seconds) c
      join memdb.shown_memory_version v
        on v.tenant_id = p_tenant and v.memory_id = c.memory_id and v.version = c.version
     order by v.memory_id, v.version;
end $$;
comment on function memdb.pending_embeddings (integer, text, integer, integer) is 'Lease memory versions that still need a vector, with the words to encode.';

-- fail_embedding: give a leased version back with the reason, to be tried again later.
--
-- The next try is due in 30 s, doubled with each attempt up to an hour; after 8 attempts the
-- version stays in the queue as failed, health counts it, and enqueue_embeddings gives it a new
-- chance. A version that has its vector by now is left alone. Raises MD105, MD301.
create or replace function memdb.fail_embedding (
  p_tenant  integer,
  p_model   text,
  p_memory  bigint,
  p_version integer,
  p_error   text
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now        timestamptz;
  v_namespaces integer[];
  v_model_id   integer;
begin
  perform memdb._authorize(p_tenant, true);
  v_model_id := (memdb._find_model(p_tenant, p_model)).model_id;
  v_namespaces := memdb._readable(p_tenant, null, null);
  v_now := memdb.current_time();
  update memdb.embedding_queue q
     set error = left(p_error, 2000),
         leased_until = v_now + least(interval '30 seconds' * 2 ^ greatest(q.attempts - 1, 0), interval '1 hour')
   where q.tenant_id = p_tenant and q.model_id = v_model_id and q.memory_id = p_memory and q.version = p_version
     and (v_namespaces is null or q.namespace_id = any (v_namespaces));
end $$;
comment on function memdb.fail_embedding (integer, text, bigint, integer, text) is 'Give a leased version back with the reason, to be tried again later.';
