-- Working memory: what a model should have before it to go on with a session, within a token budget.
--
-- The last turns word for word; of those that no longer fit, what was learnt from them and the
-- session's running summary (61 summary).

-- _estimate_tokens: about how many tokens a model makes of a text.
--
-- One for each character of a script written without spaces, a quarter for any other. Within a
-- fifth of the usual tokenizers for English and Chinese prose; code and rare scripts take more.
create or replace function memdb._estimate_tokens (p_text text)
  returns integer
  language sql immutable parallel safe
begin atomic
  select case when octet_length(p_text) = char_length(p_text) then (char_length(p_text) + 3) / 4
              else (select u.units + (char_length(p_text) - u.units + 3) / 4
                      from (select char_length(regexp_replace(p_text,
                              '[^\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+',
                              '', 'g')) as units) u) end;
end;
comment on function memdb._estimate_tokens (text) is 'About how many tokens a model makes of a text.';

-- _cut_tokens: the beginning of a text that has at most some tokens, with a sign where it was cut.
create or replace function memdb._cut_tokens (p_text text, p_tokens integer)
  returns text
  language plpgsql immutable parallel safe
as $$
declare
  v_text text := left(p_text, 4 * greatest(p_tokens, 0));
begin
  if v_text = p_text and memdb._estimate_tokens(p_text) <= p_tokens then
    return p_text;
  end if;
  while v_text <> '' and memdb._estimate_tokens(v_text) >= p_tokens loop
    v_text := left(v_text, least(char_length(v_text) - 1, char_length(v_text) * (p_tokens - 1) / memdb._estimate_tokens(v_text)));
  end loop;
  return case when v_text = '' then '' else v_text || '…' end;
end $$;
comment on function memdb._cut_tokens (text, integer) is 'The beginning of a text that has at most some tokens, with a sign where it was cut.';

-- _shown_text: what of an event goes into a model's context: its text, or else its snapshots.
create or replace function memdb._shown_text (p_text text, p_input jsonb, p_output jsonb)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_text <> '' then p_text else concat_ws(' -> ', p_input::text, p_output::text) end;
end;
comment on function memdb._shown_text (text, jsonb, jsonb) is 'What of an event goes into a model''s context: its text, or else its snapshots.';

-- _summary_key: the external id of the memory that holds the running summary of a session or a user.
create or replace function memdb._summary_key (p_session bigint, p_user text)
  returns text
  language sql immutable parallel safe
begin atomic
  select coalesce('summary:session:' || p_session, 'summary:user:' || p_user);
end;
comment on function memdb._summary_key (bigint, text) is 'The external id of the memory that holds the running summary of a session or a user.';

-- _last_turns: the latest events of a session that fit into a budget, newest first.
--
-- Events that were taken back are left out, and so are recalls: what was found once is found
-- again. metadata.tokens of an event is the caller's own count. The newest is cut where it does
-- not fit alone; any other ends the list.
create or replace function memdb._last_turns (p_tenant integer, p_session bigint, p_tokens integer)
  returns table (event_id bigint, sequence integer, kind text, speaker text, text text, occurred_at timestamptz, tokens integer,
                 is_cut boolean)
  language plpgsql stable rows 50
as $$
declare
  v_left  integer := p_tokens;
  v_event record;
begin
  for v_event in
    select e.event_id, e.sequence, e.kind, e.speaker, e.occurred_at,
           -- A text longer than this is over the budget whatever it says.
           left(memdb._shown_text(e.text, e.input, e.output), 4 * p_tokens + 4) as text,
           case when jsonb_typeof(e.metadata -> 'tokens') = 'number'
                then least(greatest((e.metadata ->> 'tokens')::numeric, 1), 10000000)::integer end as counted,
           exists (select from memdb.belief b
                    where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = e.event_id and b.to_at is null)
           or ((select memdb._is_erasing()) and memdb._is_hidden(p_tenant, 'event', e.event_id)) as is_out
      from memdb.shown_event e
     where e.tenant_id = p_tenant and e.session_id = p_session
     order by e.sequence desc
  loop
    continue when v_event.is_out or v_event.kind = 'recall';
    text   := v_event.text;
    tokens := coalesce(v_event.counted, memdb._estimate_tokens(concat_ws(': ', v_event.speaker, text)));
    is_cut := tokens > v_left;
    if is_cut then
      exit when v_left < p_tokens;
      text   := memdb._cut_tokens(text, p_tokens);
      tokens := p_tokens;
    end if;
    event_id    := v_event.event_id;
    sequence    := v_event.sequence;
    kind        := v_event.kind;
    speaker     := v_event.speaker;
    occurred_at := v_event.occurred_at;
    v_left      := v_left - tokens;
    return next;
    exit when v_left <= 0;
  end loop;
end $$;
comment on function memdb._last_turns (integer, bigint, integer) is 'The latest events of a session that fit into a budget, newest first.';

-- _first_turn: the sequence number of the oldest of the latest events that fit into a budget.
create or replace function memdb._first_turn (p_tenant integer, p_session bigint, p_tokens integer)
  returns integer
  language sql stable
begin atomic
  select min(t.sequence) from memdb._last_turns(p_tenant, p_session, p_tokens) t;
end;
comment on function memdb._first_turn (integer, bigint, integer) is 'The sequence number of the oldest of the latest events that fit into a budget.';

-- _facts_before: what was learnt from a session before some turn, the most important that fits into a budget.
--
-- p_told are the ids of memories that are told already.
create or replace function memdb._facts_before (
  p_tenant    integer,
  p_namespace integer,
  p_session   bigint,
  p_before    integer,
  p_tokens    integer,
  p_told      jsonb
)
  returns table (memory_id bigint, version integer, sequence integer, type text, text text, occurred_at timestamptz, tokens integer)
  language sql stable rows 20
begin atomic
  with known as (
    select m.memory_id, m.version, m.sequence, m.type, v.text, m.occurred_at, m.importance, m.is_pinned,
           memdb._estimate_tokens(v.text) as tokens
      from memdb.shown_memory m
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
     where m.tenant_id = p_tenant and m.session_id = p_session and m.sequence < p_before
       and m.namespace_id = p_namespace and m.status = 'active' and m.type <> 'summary'
       and p_told @> to_jsonb(m.memory_id) is not true
  ), ranked as (
    select k.*, sum(k.tokens) over (order by k.is_pinned desc, k.importance desc, k.sequence desc, k.memory_id desc
                                    rows unbounded preceding) as total
      from known k
     where k.tokens <= p_tokens)
  select r.memory_id, r.version, r.sequence, r.type, r.text, r.occurred_at, r.tokens
    from ranked r
   where r.total <= p_tokens
   order by r.sequence, r.memory_id;
end;
comment on function memdb._facts_before (integer, integer, bigint, integer, integer, jsonb) is 'What was learnt from a session before some turn, the most important that fits into a budget.';

-- _summary_before: the running summary of a session, cut to a budget; no row where there is none that holds.
--
-- told are the memories it sums up; null where it is cut.
create or replace function memdb._summary_before (p_tenant integer, p_namespace integer, p_session bigint, p_tokens integer)
  returns table (memory_id bigint, version integer, text text, occurred_at timestamptz, tokens integer, is_cut boolean, told jsonb)
  language sql stable rows 1
begin atomic
  select m.memory_id, m.version, memdb._cut_tokens(v.text, p_tokens), m.occurred_at,
         least(memdb._estimate_tokens(v.text), p_tokens), memdb._estimate_tokens(v.text) > p_tokens,
         case when memdb._estimate_tokens(v.text) <= p_tokens then v.metadata -> 'sums_up' end
    from memdb.shown_memory m
    join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
   where m.tenant_id = p_tenant and m.namespace_id = p_namespace and m.status = 'active'
     and m.external_id = memdb._summary_key(p_session, null);
end;
comment on function memdb._summary_before (integer, integer, bigint, integer) is 'The running summary of a session, cut to a budget; no row where there is none that holds.';

-- _named_session: a session by the caller's id of it.
--
-- Raises MD102, MD106, MD302. Under the caller's own row security where it has no definer around it.
create or replace function memdb._named_session (p_tenant integer, p_session text, p_namespace text, p_agent text)
  returns memdb.session
  language plpgsql stable
as $$
declare
  v_namespace integer := (memdb._readable(p_tenant, array[p_namespace], p_agent))[1];
  v_session   memdb.session;
begin
  select s.* into v_session from memdb.session s
   where s.tenant_id = p_tenant and s.namespace_id = v_namespace and s.external_id = p_session;
  if v_session.session_id is null then
    perform memdb._raise('MD106', 'no such session',
      jsonb_build_object('session', left(p_session, 200), 'namespace', p_namespace),
      'A session appears with its first event; check the namespace.');
  end if;
  return v_session;
end $$;
comment on function memdb._named_session (integer, text, text, text) is 'A session by the caller''s id of it.';

-- session_context: what a model should have before it to go on with a session, within a token budget.
--
-- p_session is your id of it, in p_namespace; p_token_budget (16 to 1,000,000) null takes the
-- session's own. Where all turns fit, they are all there is. Otherwise rows come in three parts:
-- summary, the session's running summary, in at most a quarter of the budget; fact, what was learnt
-- from turns that no longer fit, the most important of it, in at most a quarter; turn, the last
-- turns in all that is left, oldest first. The newest turn is always there, cut (is_cut) where it
-- alone is over the budget. tokens are an estimate (one for a character of Chinese and its like, a
-- quarter for others), or what the event's metadata.tokens says. Content comes under the caller's
-- own row security. Raises MD001, MD102, MD106, MD301, MD302. Cost: the rows returned, and the
-- memories of the session.
create or replace function memdb.session_context (
  p_tenant       integer,
  p_session      text,
  p_token_budget integer default null,
  p_namespace    text    default 'default',
  p_agent        text    default null
)
  returns table (place integer, part text, event_id bigint, memory_id bigint, version integer, kind_or_type text, speaker text,
                 text text, occurred_at timestamptz, tokens integer, is_cut boolean)
  language plpgsql stable rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_session memdb.session;
  v_budget  integer;
  v_turns   integer;
  v_quarter integer := 0;
  v_facts   integer := 0;
  v_summary record;
begin
  perform memdb._authorize(p_tenant, false);
  v_session := memdb._named_session(p_tenant, p_session, p_namespace, p_agent);
  v_budget  := coalesce(p_token_budget, v_session.token_budget);
  if v_budget not between 16 and 1000000 then
    perform memdb._raise('MD001', 'a token budget is 16 to 1,000,000', jsonb_build_object('field', 'token_budget'));
  end if;
  v_turns := v_budget;
  if exists (select from memdb.shown_event e where e.tenant_id = p_tenant and e.session_id = v_session.session_id
                and e.sequence < memdb._first_turn(p_tenant, v_session.session_id, v_budget)) then
    v_quarter := v_budget / 4;
  end if;
  select b.* into v_summary from memdb._summary_before(p_tenant, v_session.namespace_id, v_session.session_id, v_quarter) b
   where v_quarter > 0;
  if v_quarter > 0 then
    v_turns := v_budget - coalesce(v_summary.tokens, 0);
    v_facts := coalesce((
      select sum(f.tokens) from memdb._facts_before(p_tenant, v_session.namespace_id, v_session.session_id,
        memdb._first_turn(p_tenant, v_session.session_id, v_turns - v_quarter), v_quarter, v_summary.told) f), 0);
    v_turns := v_turns - v_facts;
  end if;
  return query
    with turn as materialized (select t.* from memdb._last_turns(p_tenant, v_session.session_id, v_turns) t)
    select row_number() over (order by c.part_place, c.sequence, c.memory_id)::integer, c.part, c.event_id, c.memory_id, c.version,
           c.kind_or_type, c.speaker, c.text, c.occurred_at, c.tokens, c.is_cut
      from (select 1 as part_place, 'summary' as part, null::bigint as event_id, v_summary.memory_id, v_summary.version,
                   'summary' as kind_or_type, null as speaker, v_summary.text, v_summary.occurred_at, v_summary.tokens,
                   v_summary.is_cut, null::integer as sequence
             where v_summary.memory_id is not null
            union all
            select 2, 'fact', null, f.memory_id, f.version, f.type, null, f.text, f.occurred_at, f.tokens, false, f.sequence
              from memdb._facts_before(p_tenant, v_session.namespace_id, v_session.session_id,
                     (select min(t.sequence) from turn t), v_facts, v_summary.told) f
            union all
            select 3, 'turn', t.event_id, null, null, t.kind, t.speaker, t.text, t.occurred_at, t.tokens, t.is_cut, t.sequence
              from turn t) c;
end $$;
comment on function memdb.session_context (integer, text, integer, text, text) is 'What a model should have before it to go on with a session, within a token budget.';
