-- What an upgrade leaves to a job is done at once where it is little: nobody has to run jobs for a small database.
do $$
declare
  v_tenant integer;
  v_budget integer := 2000;
begin
  for v_tenant in select r.tenant_id from memdb.keyword_renewal r order by r.tenant_id loop
    v_budget := v_budget - (select count(*) from (select from memdb.memory m where m.tenant_id = v_tenant limit 2001) m);
    exit when v_budget < 0;
    perform memdb._renew_keywords(v_tenant, 2001);
  end loop;
end $$;
