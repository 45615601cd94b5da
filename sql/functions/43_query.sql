-- What a query means beside its words: times counted from today, literals, and what it leaves to the conversation.
--
-- Rules, not a model, in English and Chinese: what they do not understand costs nothing.

-- _small_number: a number written in digits or words, English or Chinese: 3, three, a few, 两, 十二; null for anything else.
--
-- A few, several and 几 count as 3.
create or replace function memdb._small_number (p_text text)
  returns integer
  language sql immutable parallel safe
begin atomic
  select coalesce(
    memdb._chinese_number(p_text),
    (select n.number
       from (values ('a', 1), ('an', 1), ('one', 1), ('two', 2), ('three', 3), ('four', 4), ('five', 5), ('six', 6), ('seven', 7),
                    ('eight', 8), ('nine', 9), ('ten', 10), ('eleven', 11), ('twelve', 12), ('couple', 2), ('few', 3), ('several', 3),
                    ('两', 2), ('兩', 2), ('几', 3), ('幾', 3)) n (word, number)
      where n.word = regexp_replace(lower(p_text), '^(a\s+)?(couple|few)(\s+of)?$', '\2')));
end;
comment on function memdb._small_number (text) is 'A number written in digits or words, English or Chinese: 3, three, a few, 两, 十二; null for anything else.';

-- _span_text: a span of days in the notation _time_ranges reads; at most a year of it.
create or replace function memdb._span_text (p_from date, p_to date)
  returns text
  language sql immutable parallel safe
begin atomic
  select to_char(p_from, ' FMYYYY"年"FMMM"月"FMDD"日至"') || to_char(least(p_to, (p_from + interval '1 year')::date - 1), 'FMMM"月"FMDD"日 "');
end;
comment on function memdb._span_text (date, date) is 'A span of days in the notation _time_ranges reads; at most a year of it.';

-- _span_back: the days meant by so many units ago, or, up to today, by the last so many of them.
--
-- A number below 0 counts ahead: in so many units, or, from today, the next so many. Two weeks ago
-- is the week around that day, two months ago that month, two years ago that year. Null for more
-- than 500 units.
create or replace function memdb._span_back (p_number integer, p_unit text, p_until_now boolean, p_today date)
  returns text
  language sql immutable parallel safe
begin atomic
  select case
    when p_number is null or abs(p_number) > 500 then null
    when p_until_now and p_number < 0 then memdb._span_text(p_today, b.day)
    when p_until_now then memdb._span_text(greatest(b.day, p_today - 364), p_today)
    when p_unit = 'day' then memdb._span_text(b.day, b.day)
    when p_unit = 'week' then memdb._span_text(b.day - 3, b.day + 3)
    else memdb._span_text(date_trunc(p_unit, b.day)::date, (date_trunc(p_unit, b.day) + ('1 ' || p_unit)::interval)::date - 1) end
    from (select (p_today - make_interval(days => case p_unit when 'day' then p_number when 'week' then 7 * p_number else 0 end,
                                          months => case p_unit when 'month' then p_number when 'year' then 12 * p_number else 0 end))::date) b (day);
end;
comment on function memdb._span_back (integer, text, boolean, date) is 'The days meant by so many units ago, or, up to today, by the last so many of them.';

-- _year_of: a month's first day in the year that is meant: the last that has begun or, where p_back is below 0, the first that has not.
create or replace function memdb._year_of (p_from date, p_back integer, p_today date)
  returns date
  language sql immutable parallel safe
begin atomic
  select (p_from + case when p_back < 0 and p_from <= p_today then interval '1 year'
                        when p_back >= 0 and p_from > p_today then interval '-1 year'
                        else interval '0' end)::date;
end;
comment on function memdb._year_of (date, integer, date) is 'A month''s first day in the year that is meant: the last that has begun or, where p_back is below 0, the first that has not.';

-- _span_named: the days meant by a unit, a weekday, a month or a season before, at or after today.
--
-- p_back: how many of them back, 0 the one that is now, -1 the next. A weekday counts within its week,
-- which begins on Monday; a month or season p_back 1 is the last one that is over or going on, -1 the
-- first one that has not begun. The next Friday is the first to come and, as many mean it, that of
-- next week. Null for another name.
create or replace function memdb._span_named (p_name text, p_back integer, p_today date)
  returns text
  language plpgsql immutable parallel safe
as $$
declare
  v_week    date := date_trunc('week', p_today)::date;
  v_weekday integer := (position(left(lower(p_name), 3) in 'montuewedthufrisatsun') + 2) / 3;
  v_month   integer := memdb._month_number(p_name);
  v_from    date;
begin
  case
    when p_name in ('week', 'month', 'year') then
      v_from := (date_trunc(p_name, p_today) - p_back * ('1 ' || p_name)::interval)::date;
      return memdb._span_text(v_from, (v_from + ('1 ' || p_name)::interval)::date - 1);
    when p_name = 'weekend' then
      return memdb._span_text(v_week - 7 * p_back + 5, v_week - 7 * p_back + 6);
    when p_name in ('spring', 'summer', 'autumn', 'fall', 'winter') then
      v_from := make_date(extract(year from p_today)::integer,
                          case p_name when 'spring' then 3 when 'summer' then 6 when 'winter' then 12 else 9 end, 1);
      v_from := memdb._year_of(v_from, p_back, p_today);
      return memdb._span_text(v_from, (v_from + interval '3 months')::date - 1);
    when p_name ~* '^(mon|tues|wednes|thurs|fri|satur|sun)day$' then
      v_from := v_week + v_weekday - 1;
      if p_back < 0 then
        return case when v_from > p_today then memdb._span_text(v_from, v_from) else '' end || memdb._span_text(v_from + 7, v_from + 7);
      end if;
      -- "last Friday", said on a Monday, is the one three days ago.
      v_from := v_from - case when v_from >= p_today and p_back > 0 then 7 else 0 end;
      return memdb._span_text(v_from, v_from);
    when v_month is not null then
      v_from := make_date(extract(year from p_today)::integer, v_month, 1);
      v_from := memdb._year_of(v_from, p_back, p_today - greatest(least(p_back, 1), 0) * 31);
      return memdb._span_text(v_from, (v_from + interval '1 month')::date - 1);
    else
      return null;
  end case;
end $$;
comment on function memdb._span_named (text, integer, date) is 'The days meant by a unit, a weekday, a month or a season before, at or after today.';

-- _english_dates: a query with what it counts from today in English spelt out: last May, two weeks ago, the next few days.
create or replace function memdb._english_dates (p_query text, p_today date)
  returns text
  language plpgsql immutable parallel safe
as $$
declare
  c_number constant text := '(a\s+couple\s+of|couple\s+of|a\s+few|an?|few|several|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[0-9]{1,3})';
  c_named  constant text := '(week|weekend|month|year|spring|summer|autumn|fall|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day'
    '|january|february|march|april|may|june|july|august|september|october|november|december)';
  v_spans text := '';
  v_part  text[];
  v_span  text;
begin
  for v_part in
    select m.part
      from (values (1, '\m' || c_number || '\s+(day|week|month|year)s?\s+(?:ago|earlier|back)\M'),
                   (2, '\m(?:last|past|previous)\s+' || c_number || '\s+(day|week|month|year)s?\M'),
                   (3, '\m(last|past|previous|this|next|coming|upcoming|following)\s+' || c_named || '\M(?!\s+[0-9])'),
                   (4, '\m(?:the\s+)?(day\s+before\s+yesterday|yesterday|today|tonight|last\s+night|this\s+(?:morning|afternoon|evening)'
                       '|day\s+after\s+tomorrow|tomorrow)\M'),
                   (5, '\min\s+' || c_number || '\s+(day|week|month|year)s?(?:''s?)?(?:\s+time)?\M'),
                   (6, '\m' || c_number || '\s+(day|week|month|year)s?\s+from\s+(?:now|today)\M'),
                   (7, '\m(?:next|coming|upcoming|following)\s+' || c_number || '\s+(day|week|month|year)s?\M')) r (rule, pattern)
      cross join lateral (
        select array[r.rule::text, x.part[1], x.part[2]] from regexp_matches(p_query collate "C", r.pattern, 'gi') x (part)) m (part)
  loop
    v_span := case v_part[1]
      when '1' then memdb._span_back(memdb._small_number(v_part[2]), lower(v_part[3]), false, p_today)
      when '2' then memdb._span_back(memdb._small_number(v_part[2]), lower(v_part[3]), true, p_today)
      when '3' then memdb._span_named(lower(v_part[3]), case when v_part[2] ~* 'this' or (v_part[2] ~* 'coming' and v_part[3] ~* 'weekend') then 0
                                              when v_part[2] ~* '^(last|past|previous)' then 1 else -1 end, p_today)
      when '4' then memdb._span_back(case when v_part[2] ~* 'before' then 2 when v_part[2] ~* 'yester|last' then 1 when v_part[2] ~* 'after\s' then -2
                                          when v_part[2] ~* 'tomorrow' then -1 else 0 end, 'day', false, p_today)
      else memdb._span_back(-memdb._small_number(v_part[2]), lower(v_part[3]), v_part[1] = '7', p_today) end;
    v_spans := v_spans || coalesce(v_span, '');
  end loop;
  -- A month that was read as "last May" must not be read once more as May of any year.
  return case when v_spans = '' then p_query
              else regexp_replace(p_query collate "C", '\m(last|past|previous|this|next|coming|upcoming|following)\s+' || c_named || '\M(?!\s+[0-9])', '', 'gi') || v_spans end;
end $$;
comment on function memdb._english_dates (text, date) is 'A query with what it counts from today in English spelt out: last May, two weeks ago, the next few days.';

-- _chinese_dates: a query with what it counts from today in Chinese spelt out: 上周三, 去年五月, 两个月后, 最近三天.
create or replace function memdb._chinese_dates (p_query text, p_today date)
  returns text
  language plpgsql immutable parallel safe
as $$
declare
  c_number constant text := '([0-9]{1,3}|[一二两兩三四五六七八九十几幾]{1,3})';
  v_year  integer := extract(year from p_today);
  v_week  date := date_trunc('week', p_today)::date;
  v_query text := p_query;
  v_part  text[];
  v_day   integer;
begin
  -- What cannot match is not tried: PostgreSQL keeps 32 patterns, and compiling one again takes longer than looking for its characters.
  -- A year before a month is the year of that month; alone it is all of it.
  if v_query like '%年%月%' then
    v_query := regexp_replace(v_query, '明年(?=\s*(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})月)', v_year + 1 || '年', 'g');
    v_query := regexp_replace(v_query, '去年(?=\s*(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})月)', v_year - 1 || '年', 'g');
    v_query := regexp_replace(v_query, '前年(?=\s*(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})月)', v_year - 2 || '年', 'g');
    v_query := regexp_replace(v_query, '今年(?=\s*(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})月)', v_year || '年', 'g');
  end if;
  if v_query like any ('{%上%月%,%下%月%}') then
    v_query := regexp_replace(v_query, '上上?个?月(?=[0-9]{1,2}[日号])', to_char(p_today - interval '1 month', 'FMYYYY"年"FMMM"月"'), 'g');
    v_query := regexp_replace(v_query, '下个?個?月(?=[0-9]{1,2}[日号])', to_char(p_today + interval '1 month', 'FMYYYY"年"FMMM"月"'), 'g');
  end if;
  for v_part in
    select m.part
      from (values (1, '{%年%}'::text[], '(去年|前年|今年|明年|后年|後年)()'),
                   (2, '{%周%,%週%,%星期%,%礼拜%,%禮拜%}', '(上上|上|这|這|本|下下|下)个?個?(?:周|週|星期|礼拜|禮拜)(末|[一二三四五六日天])?'),
                   (3, '{%上%月%,%这%月%,%這%月%,%本%月%,%下%月%}', '(上上|上|这|這|本|下下|下)个?個?月()'),
                   (4, '{%前%}', c_number || '个?個?(天|日|周|週|星期|礼拜|月|年)(?:前|以前|之前)'),
                   (5, '{%近%,%过去%,%過去%,%这%}', '(?:最近|过去|過去|近|这)' || c_number || '个?個?(天|日|周|週|星期|礼拜|月|年)'),
                   (6, '{%天%,%晚%,%日%,%早%}', '(大前天|前天|昨天|昨晚|昨日|今天|今早|今晚|今日|明天|明早|明晚|明日|大后天|大後天|后天|後天)()'),
                   (7, '{%半年%}', '(半年)(?:前|以前|之前)()'),
                   (8, '{%后%,%後%}', c_number || '个?個?(天|日|周|週|星期|礼拜|月|年)(?:后|後|以后|以後|之后|之後)'),
                   (9, '{%未来%,%未來%,%接下%,%今后%,%今後%}', '(?:未来|未來|接下来|接下來|今后|今後)' || c_number || '个?個?(天|日|周|週|星期|礼拜|月|年)'),
                   (10, '{%半年%}', '(半年)(?:后|後|以后|以後|之后|之後)()')) r (rule, signs, pattern)
      cross join lateral (
        select array[r.rule::text, x.part[1], x.part[2]] from regexp_matches(v_query, r.pattern, 'g') x (part)) m (part)
     where v_query like any (r.signs)
  loop
    v_day := case v_part[2] when '上上' then 2 when '上' then 1 when '下' then -1 when '下下' then -2 else 0 end;
    v_query := v_query || coalesce(case v_part[1]
      when '1' then memdb._span_named('year', case v_part[2] when '去年' then 1 when '前年' then 2 when '明年' then -1 when '今年' then 0 else -2 end, p_today)
      when '2' then case
        when v_part[3] is null then memdb._span_named('week', v_day, p_today)
        when v_part[3] = '末' then memdb._span_named('weekend', v_day, p_today)
        else memdb._span_text(v_week - 7 * v_day + position(translate(v_part[3], '天', '日') in '一二三四五六日') - 1,
                              v_week - 7 * v_day + position(translate(v_part[3], '天', '日') in '一二三四五六日') - 1) end
      when '3' then memdb._span_named('month', v_day, p_today)
      when '6' then memdb._span_back(case when v_part[2] ~ '大前' then 3 when v_part[2] ~ '前' then 2 when v_part[2] ~ '昨' then 1 when v_part[2] ~ '今' then 0
                                          when v_part[2] ~ '明' then -1 when v_part[2] ~ '大' then -3 else -2 end, 'day', false, p_today)
      when '7' then memdb._span_back(6, 'month', false, p_today)
      when '10' then memdb._span_back(-6, 'month', false, p_today)
      else memdb._span_back(memdb._small_number(v_part[2]) * case when v_part[1] in ('8', '9') then -1 else 1 end,
                            case when v_part[3] in ('天', '日') then 'day' when v_part[3] = '月' then 'month' when v_part[3] = '年' then 'year' else 'week' end,
                            v_part[1] in ('5', '9'), p_today) end, '');
  end loop;
  return v_query;
end $$;
comment on function memdb._chinese_dates (text, date) is 'A query with what it counts from today in Chinese spelt out: 上周三, 去年五月, 两个月后, 最近三天.';

-- _dated_query: a query whose times counted from today are spelt out as dates behind it, for _time_ranges.
--
-- For the time a query names only: its words stay what they are. p_today is a day of the caller's.
create or replace function memdb._dated_query (p_query text, p_today date)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_query ~ '年|月|天|日|周|週|星期|礼拜|禮拜|晚|早' then memdb._chinese_dates(e.query, p_today) else e.query end
    from (select case when p_query collate "C" ~* '\m(last|past|previous|this|next|coming|upcoming|following|in|from|ago|earlier|back|yesterday|today|tonight|tomorrow)\M'
                      then memdb._english_dates(p_query, p_today) else p_query end) e (query);
end;
comment on function memdb._dated_query (text, date) is 'A query whose times counted from today are spelt out as dates behind it, for _time_ranges.';

-- _literals: what of a query is to be found letter by letter: order numbers, paths, addresses, codes, names in code.
--
-- A run without spaces that holds a digit beside a letter or a sign, five digits or more, or an inner
-- sign as paths, addresses and names in code have it. Dates, times and ordinals are none; at most 10.
-- Most questions hold nothing of the kind: one look tells that, where eight looks at each word took 0.2 ms.
create or replace function memdb._literals (p_query text)
  returns text[]
  language sql immutable parallel safe
begin atomic
  select coalesce(array_agg(t.literal order by t.place), '{}')
    from (select w.literal, min(w.place) as place
            from (select btrim(m.part[1], '.,:;!?''"()[]{}') as literal, m.place
                    from regexp_matches(left(p_query, 8000), '([A-Za-z0-9_#@~./\\:+-]{3,200})', 'g') with ordinality m (part, place)) w
           where p_query ~ '[0-9]{5}|[0-9][A-Za-z_#@~./\\:+-]|[A-Za-z_#@~./\\:+-][0-9]|[/\\_@~]|::|[.][A-Za-z]|[a-z][A-Z]'
             and (w.literal ~ '[0-9]{5}'
                  or (w.literal ~ '[0-9]' and w.literal ~ '[A-Za-z]' and w.literal !~* '^[0-9]+(st|nd|rd|th|s|am|pm|k|km|kg|cm|mm|m|h|min)$'
                      and w.literal !~ '^[0-9]{1,2}-year')
                  or w.literal ~ '[A-Za-z0-9][/\\_@][A-Za-z0-9]|^[/~][A-Za-z]|[A-Za-z]{2}::[A-Za-z]|^[a-z]{2,}[A-Z][a-z]|[A-Za-z0-9]\.[A-Za-z]{2,6}$')
             and w.literal !~ '^[0-9]{1,4}([-/.:][0-9]{1,4}){1,2}$'
             and w.literal !~ '^(and|or|he|she|his|him)/[a-z]+$'
           group by w.literal
           order by 2
           limit 10) t;
end;
comment on function memdb._literals (text) is 'What of a query is to be found letter by letter: order numbers, paths, addresses, codes, names in code.';

-- _closeness_weight: what the closeness of vectors counts beside the words of a query: 0.6, and 0.15 beside a literal.
--
-- To an encoder one order number is as good as another.
create or replace function memdb._closeness_weight (p_query text)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select case when cardinality(memdb._literals(p_query)) > 0 then 0.15 else 0.6 end;
end;
comment on function memdb._closeness_weight (text) is 'What the closeness of vectors counts beside the words of a query: 0.6, and 0.15 beside a literal.';
