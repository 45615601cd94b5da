-- What an upgrade leaves to a job is done at once where it is little: nobody has to run jobs for a small database.
do $$
declare
  v_tenant   integer;
  v_versions bigint := 2000;
  v_bytes    bigint := 2000000;  -- of text: everybody is kept out meanwhile
begin
  for v_tenant in select r.tenant_id from memdb.keyword_renewal r order by r.tenant_id loop
    select v_versions - count(*), v_bytes - coalesce(sum(octet_length(v.text)), 0) into v_versions, v_bytes
      from (select m.memory_id from memdb.memory m where m.tenant_id = v_tenant limit 2001) m
      join memdb.memory_version v on v.tenant_id = v_tenant and v.memory_id = m.memory_id;
    exit when least(v_versions, v_bytes) < 0;
    while memdb._renew_keywords(v_tenant, 2000) > 0 loop
    end loop;
  end loop;
end $$;
