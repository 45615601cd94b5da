-- What a query leaves to the conversation it is asked in.

-- _own_words: how many words of content a query has, of any language, without those that only point or ask.
create or replace function memdb._own_words (p_query text)
  returns integer
  language sql immutable parallel safe
begin atomic
  select (select count(*)
            from unnest(memdb.keyword_text_v2(left(p_query, 2000), null, 'en', '{}')) l
           where (l.lexeme ~ '^[a-z0-9]' or (char_length(l.lexeme) > 3 and l.lexeme ~ '^[\u00c0-\u0dff\u1e00-\u1fff]'))
             and l.lexeme <> all (array['els', 'also', 'still', 'yet', 'one', 'two', 'thing', 'someth', 'anyth', 'tell', 'know', 'mean',
                                        'say', 'said', 'happen', 'get', 'got', 'go', 'went', 'make', 'made', 'like', 'much', 'mani', 'okay', 'ok',
                                        'ye', 'yeah', 'pleas', 'thank', 'sure', 'well', 'right', 'realli', 'anyon', 'someon', 'us', 'let']))::integer
       + char_length(regexp_replace(regexp_replace(left(p_query, 2000), '[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]', '', 'g'),
           '什么|继续|甚麼|怎么样|怎么|怎麼|为什么|哪里|哪儿|哪个|后来|然后|现在|还有|以及|知道|告诉|说说|请问|[的了着过吗嗎呢吧啊呀么哪怎谁誰是在和与及或而但也都就把被从向这這那其之他她它你您我们們咱俺有没不还再又好嗯哦谢請请说事个些点多少几]', '', 'g')) / 2;
end;
comment on function memdb._own_words (text) is 'How many words of content a query has, of any language, without those that only point or ask.';

-- _points_back: whether a query speaks of somebody or something that only the turns before it name.
create or replace function memdb._points_back (p_query text)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select p_query collate "C" ~* '\m(he|him|his|she|her|hers|they|them|their|theirs|it|its|this|that|these|those|there|then|the\s+(?:same|other|first|second|latter|former)(?:\s+one)?)\M'
      or p_query ~ '[他她它]|这个|那个|這個|那個|这些|那些|那里|那儿|那边|当时|那时|其中|前者|后者';
end;
comment on function memdb._points_back (text) is 'Whether a query speaks of somebody or something that only the turns before it name.';

-- fold_query: a query as it is to be searched: with the turns before it where it does not stand by itself.
--
-- It does not where it has no word of content ("what about him?", 那他呢), or at most two beside a word that
-- points back ("when did he move?"). Then the last turns of p_session (your id of it, in p_namespace), p_tokens of them (16 to
-- 2,000), go before it, and the running summary of the session where these have nothing to say either.
-- A session that does not exist yet has no turns. Returns query, the text to encode and to search; is_folded; turns, the last
-- turns, oldest first, for a model that is to do better. Runs as the caller. Raises MD001, MD102,
-- MD301, MD302. Cost: the last turns of one session.
create or replace function memdb.fold_query (
  p_tenant    integer,
  p_query     text,
  p_session   text,
  p_namespace text    default 'default',
  p_agent     text    default null,
  p_tokens    integer default 120
)
  returns table (query text, is_folded boolean, turns text[])
  language plpgsql stable rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespace integer;
  v_session   bigint;
  v_words     integer := memdb._own_words(p_query);
begin
  perform memdb._authorize(p_tenant, false);
  if (p_query collate pg_catalog.pg_c_utf8 ~ '\S' and p_session <> '' and p_tokens between 16 and 2000) is not true then
    perform memdb._raise('MD001', 'a query, a session, and 16 to 2,000 tokens are needed',
      jsonb_build_object('field', case when p_query collate pg_catalog.pg_c_utf8 ~ '\S' then 'session' else 'query' end));
  end if;
  v_namespace := (memdb._readable(p_tenant, array[p_namespace], p_agent))[1];
  select s.session_id into v_session from memdb.session s
   where s.tenant_id = p_tenant and s.namespace_id = v_namespace and s.external_id = p_session;
  -- The question itself is a turn already where the caller wrote it down first.
  turns := array(select concat_ws(': ', t.speaker, t.text) from memdb._last_turns(p_tenant, v_session, p_tokens) t
                  where t.text <> p_query order by t.sequence);
  is_folded := v_session is not null and (v_words = 0 or (v_words <= 2 and memdb._points_back(p_query)));
  query := p_query;
  if is_folded then
    query := concat_ws(E'\n',
      case when memdb._own_words(array_to_string(turns, E'\n')) < 3
           then (select s.text from memdb._summary_before(p_tenant, v_namespace, v_session, p_tokens) s) end,
      array_to_string(turns, E'\n'), p_query);
  end if;
  return next;
end $$;
comment on function memdb.fold_query (integer, text, text, text, text, integer) is 'A query as it is to be searched: with the turns before it where it does not stand by itself.';
