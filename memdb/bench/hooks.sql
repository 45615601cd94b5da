-- What a step is measured against: a function that inserts one row into a table with the columns of
-- memdb.event, and nothing else: no key, no index, no check.
create temp table plain_event as select * from memdb.event where false;

create function pg_temp.insert_plain (p_text text, p_input jsonb, p_output jsonb)
  returns void
  language sql volatile
begin atomic
  insert into plain_event (tenant_id, namespace_id, kind, text, input, output, metadata, occurred_at, recorded_at)
    values (1, 1, 'tool_call', p_text, p_input, p_output, '{}', now(), now());
end;
