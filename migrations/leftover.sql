-- leftover: drop what an upgrade left of functions whose arguments have changed since.
--
-- `create or replace` makes a second function where the arguments differ, and a call that fits both
-- is refused as ambiguous. A name stands for one function in memdb, so of two the one written by an
-- older transaction is left over; without an upgrade there are no two of a name.
do $$
declare
  v_left text;
begin
  -- In one statement: they may rest on each other.
  select string_agg(p.oid::regprocedure::text, ', ') into v_left
    from pg_catalog.pg_proc p
   where p.pronamespace = 'memdb'::regnamespace and p.prokind = 'f'
     and exists (select from pg_catalog.pg_proc newer
                  where newer.pronamespace = p.pronamespace and newer.proname = p.proname and newer.prokind = 'f'
                    and age(newer.xmin) < age(p.xmin));
  if v_left is not null then
    execute 'drop function ' || v_left;
  end if;
end $$;
