-- Turns: what was said around an event.

-- earlier_events: the events just before one in its session, oldest first.
--
-- p_limit 1 to 100. Columns are those of claim_events, so that whoever works on an event reads
-- what came before it in the same form; attempts is 0 and leased_until the time it was recorded.
-- An event without a session has none. Cost: one index range.
create or replace function memdb.earlier_events (
  p_tenant integer,
  p_event  bigint,
  p_limit  integer default 3
)
  returns table (
    event_id bigint, namespace text, session text, session_id bigint, sequence integer, kind text, text text,
    input jsonb, output jsonb, user_id text, agent_id text, speaker text, language text, occurred_at timestamptz,
    time_zone text, trust real, parent_event_id bigint, metadata jsonb, attempts integer, leased_until timestamptz)
  language sql stable rows 3
begin atomic
  select w.event_id, n.path, s.external_id, w.session_id, w.sequence, w.kind, w.text, w.input, w.output, w.user_id, w.agent_id,
         w.speaker, w.language, w.occurred_at, w.time_zone, w.trust, w.parent_event_id, w.metadata, 0, w.recorded_at
    from (select e.*
            from memdb.event o
            join memdb.event e on e.tenant_id = o.tenant_id and e.session_id = o.session_id and e.sequence < o.sequence
           where o.tenant_id = p_tenant and o.event_id = p_event
             and (not (select memdb._is_erasing()) or not memdb._is_hidden(p_tenant, 'event', e.event_id))
           order by e.sequence desc
           limit least(greatest(p_limit, 1), 100)) w
    join memdb.namespace n on n.tenant_id = w.tenant_id and n.namespace_id = w.namespace_id
    join memdb.session s on s.tenant_id = w.tenant_id and s.session_id = w.session_id
   order by w.sequence;
end;
comment on function memdb.earlier_events (integer, bigint, integer) is 'The events just before one in its session, oldest first.';
