-- Times named in a query: explicit dates, months and parts of months, in English and Chinese.
--
-- Rules, not a model: what they do not understand costs nothing, since a time only raises what
-- the other legs found.

-- _chinese_number: a number of at most three Chinese or any Arabic digits, 1 to 99; null for anything else.
create or replace function memdb._chinese_number (p_text text)
  returns integer
  language sql immutable parallel safe
begin atomic
  select case
    when p_text ~ '^[0-9]{1,4}$' then p_text::integer
    when p_text ~ '^[一二三四五六七八九]$' then position(p_text in '一二三四五六七八九')
    when p_text ~ '^[一二三四五六七八九]?十[一二三四五六七八九]?$' then
      10 * case when p_text like '十%' then 1 else position(left(p_text, 1) in '一二三四五六七八九') end
      + case when p_text like '%十' then 0 else position(right(p_text, 1) in '一二三四五六七八九') end
  end;
end;
comment on function memdb._chinese_number (text) is 'A number of at most three Chinese or any Arabic digits, 1 to 99; null for anything else.';

-- _month_number: the number of an English month name or its abbreviation; null for anything else.
create or replace function memdb._month_number (p_name text)
  returns integer
  language sql immutable parallel safe
begin atomic
  select nullif(position(lower(left(p_name, 3)) in 'janfebmaraprmayjunjulaugsepoctnovdec') + 2, 2) / 3;
end;
comment on function memdb._month_number (text) is 'The number of an English month name or its abbreviation; null for anything else.';

-- _chinese_ranges: the dates a query names in Chinese: 2025年8月29日, 八月中旬, 9月1日至5日.
--
-- As (year, month, first day, month, last day); year null where none is named, days as written.
create or replace function memdb._chinese_ranges (p_query text)
  returns table (year integer, from_month integer, from_day integer, to_month integer, to_day integer)
  language sql immutable parallel safe rows 2
begin atomic
  select w.year, w.month, coalesce(w.day, s.from_day, 1),
         case when w.day is null then w.month else coalesce(w.to_month, w.month) end,
         case when w.day is null then coalesce(s.to_day, 31) else coalesce(w.to_day, w.day) end
    from (select m.part[1]::integer as year, memdb._chinese_number(m.part[2]) as month, memdb._chinese_number(m.part[3]) as day,
                 m.part[4] as span, memdb._chinese_number(m.part[5]) as to_month, memdb._chinese_number(m.part[6]) as to_day
            from regexp_matches(p_query,
                   '(?:([0-9]{4})年)?([0-9]{1,2}|[一二三四五六七八九十]{1,3})月(?:份)?(?:的)?'
                   '(?:([0-9]{1,2}|[一二三四五六七八九十]{1,3})[日号]|(上旬|中旬|下旬|中下旬|初|底|末|中))?'
                   '(?:\s*[至到—–~-]\s*(?:([0-9]{1,2}|[一二三四五六七八九十]{1,3})月)?([0-9]{1,2}|[一二三四五六七八九十]{1,3})[日号])?',
                   'g') m (part)) w
    left join (values ('上旬', 1, 10), ('初', 1, 10), ('中旬', 11, 20), ('中', 8, 23), ('下旬', 21, 31), ('中下旬', 11, 31),
                      ('底', 21, 31), ('末', 21, 31)) s (span, from_day, to_day) on s.span = w.span;
end;
comment on function memdb._chinese_ranges (text) is 'The dates a query names in Chinese: 2025年8月29日, 八月中旬, 9月1日至5日.';

-- _english_ranges: the dates a query names in English: 8 May 2023, May 8th, late March, Aug 3, and 2023-05-08.
--
-- Columns as in _chinese_ranges. `may` in lower case without a day or a year is the verb, and an
-- abbreviated month without either is left alone.
create or replace function memdb._english_ranges (p_query text)
  returns table (year integer, from_month integer, from_day integer, to_month integer, to_day integer)
  language sql immutable parallel safe rows 2
begin atomic
  select m.part[6]::integer, n.month, coalesce(d.day, s.from_day, 1), n.month, coalesce(d.day, s.to_day, 31)
    from regexp_matches(p_query collate "C",
           '(?:\m([0-9]{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?|\m(early|mid|late)(?:\s+|-))?'
           '\m(?:(january|february|march|april|may|june|july|august|september|october|november|december)'
           '|(jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec))\M\.?'
           '(?:\s+([0-9]{1,2})(?:st|nd|rd|th)?\M)?(?:,?\s+(?:of\s+)?([0-9]{4})\M)?',
           'gi') m (part)
    cross join lateral (select memdb._month_number(coalesce(m.part[3], m.part[4]))) n (month)
    cross join lateral (select coalesce(m.part[1], m.part[5])::integer) d (day)
    left join (values ('early', 1, 10), ('mid', 11, 20), ('late', 21, 31)) s (span, from_day, to_day) on s.span = lower(m.part[2])
   where lower(p_query collate "C") <> upper(p_query collate "C")
     and (d.day is not null or m.part[6] is not null
          or (m.part[4] is null and (m.part[3] <> 'may' or s.span is not null)))
  union all
  select m.part[1]::integer, m.part[2]::integer, m.part[3]::integer, m.part[2]::integer, m.part[3]::integer
    from regexp_matches(p_query collate "C", '\m([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?![0-9])', 'g') m (part)
   where p_query like any ('{%-%,%/%}');
end;
comment on function memdb._english_ranges (text) is 'The dates a query names in English: 8 May 2023, May 8th, late March, Aug 3, and 2023-05-08.';

-- _time_ranges: the spans of days a query names, as dates, [from, to] both included.
--
-- A date without a year is taken in each of p_years. Days past the end of their month mean its
-- last day; a month above 12 is no date. A span that would end before it begins ends a year later.
create or replace function memdb._time_ranges (p_query text, p_years integer[])
  returns table (from_date date, to_date date)
  language sql immutable parallel safe rows 2
begin atomic
  select distinct f.date,
         (case when t.date >= f.date then t.date else t.date + interval '1 year' end)::date
    -- What cannot match is not tried: PostgreSQL keeps 32 patterns, and compiling one again takes longer than all else here.
    from (select * from memdb._chinese_ranges(p_query) where p_query like '%月%'
          union all select * from memdb._english_ranges(p_query)) r
    cross join lateral unnest(case when r.year is null then p_years else array[r.year] end) y (year)
    -- Null, not an error, for a month or year that is none: conditions may be tried in any order.
    cross join lateral (
      select case when y.year between 1 and 9998 and r.from_month between 1 and 12 then make_date(y.year, r.from_month, 1) end,
             case when y.year between 1 and 9998 and r.to_month between 1 and 12 then make_date(y.year, r.to_month, 1) end
      ) b (from_date, to_date)
    cross join lateral (
      select least(b.from_date + greatest(r.from_day, 1) - 1, (b.from_date + interval '1 month')::date - 1)) f (date)
    cross join lateral (
      select least(b.to_date + greatest(r.to_day, 1) - 1, (b.to_date + interval '1 month')::date - 1)) t (date)
   where b.from_date is not null and b.to_date is not null;
end;
comment on function memdb._time_ranges (text, integer[]) is 'The spans of days a query names, as dates, [from, to] both included.';

-- _time_spans: what a query's dates mean in a scope: spans of time, and what lying in one is worth.
--
-- Days begin at midnight in the time zone of the database session. A date without a year means
-- that date in every year of the scope, the last 20 of them. A span is worth twice the idf of the
-- memories that lie in it, counted up to 5,000: a day says more than a month. Nothing is
-- read where the query names no date.
create or replace function memdb._time_spans (
  p_tenant     integer,
  p_namespaces integer[],
  p_query      text,
  p_documents  double precision,
  out from_at timestamptz[],
  out to_at   timestamptz[],
  out worth   double precision[]
)
  language plpgsql stable
as $$
declare
  v_first integer;
  v_last  integer;
begin
  p_query := memdb._dated_query(p_query, memdb.current_time()::date);
  if p_query !~ '月|[0-9]{4}[-/][0-9]' and p_query collate "C" !~* '\m(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)' then
    return;
  end if;
  select min(extract(year from f.occurred_at)), max(extract(year from l.occurred_at))
    into v_first, v_last
    from memdb.namespace n
    cross join lateral (
      select m.occurred_at from memdb.memory m
       where m.tenant_id = p_tenant and m.namespace_id = n.namespace_id order by m.occurred_at limit 1) f
    cross join lateral (
      select m.occurred_at from memdb.memory m
       where m.tenant_id = p_tenant and m.namespace_id = n.namespace_id order by m.occurred_at desc limit 1) l
   where n.tenant_id = p_tenant and (p_namespaces is null or n.namespace_id = any (p_namespaces));
  select array_agg(r.from_date::timestamptz), array_agg((r.to_date + 1)::timestamptz),
         array_agg(2 * memdb._idf(p_documents, i.memories))
    into from_at, to_at, worth
    from memdb._time_ranges(p_query, array(select generate_series(greatest(v_first, v_last - 19), v_last))) r
    cross join lateral (
      select count(*) as memories
        from (select from memdb.memory m
               where m.tenant_id = p_tenant
                 and m.namespace_id = any (coalesce(p_namespaces,
                       array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant)))
                 and m.occurred_at >= r.from_date and m.occurred_at < r.to_date + 1
               limit 5000) w) i;
end $$;
comment on function memdb._time_spans (integer, integer[], text, double precision) is 'What a query''s dates mean in a scope: spans of time, and what lying in one is worth.';

-- _time_fade: how near a moment is to a span of time: 1 inside, a third less with each day outside.
--
-- exp(-days / 3), in whole days begun, at most 100: of less, exp is an error in PostgreSQL.
create or replace function memdb._time_fade (p_at timestamptz, p_from_at timestamptz, p_to_at timestamptz)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select exp(-least(100, case
    when p_at < p_from_at then ceil(date_part('epoch', p_from_at - p_at) / 86400)
    when p_at >= p_to_at then floor(date_part('epoch', p_at - p_to_at) / 86400) + 1
    else 0 end) / 3);
end;
comment on function memdb._time_fade (timestamptz, timestamptz, timestamptz) is 'How near a moment is to a span of time: 1 inside, a third less with each day outside.';

-- _told_times: the times a memory speaks of, which need not be when it was said: since when it holds, and the days its words name.
--
-- Days are metadata -> 'dates', as the stages of extraction write them ("2026-12-04"), and begin at midnight in the
-- time zone of the database session; of other metadata of that name what is no such day is passed over. At most 10.
create or replace function memdb._told_times (p_valid_from timestamptz, p_metadata jsonb)
  returns setof timestamptz
  language sql stable parallel safe rows 1
begin atomic
  select p_valid_from where p_valid_from is not null
  union all
  select t.day::date::timestamptz
    from (select d.value #>> '{}' as day from jsonb_path_query(p_metadata, 'lax $.dates[*]') d (value) limit 10) t
   where t.day ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' and pg_input_is_valid(t.day, 'date');
end;
comment on function memdb._told_times (timestamptz, jsonb) is 'The times a memory speaks of, which need not be when it was said: since when it holds, and the days its words name.';
