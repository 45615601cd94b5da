-- 0023_keyword: words are cut by memdb's own rules, the same in every locale.
--
-- PostgreSQL's parser asks the LC_CTYPE of the database what a letter is. Where that is C, as in the
-- embedded server, everything beyond ASCII is one: "tea。" was a single word. Now the parser meets
-- ASCII only. The words of a version are written by a trigger, not generated: so a change of the
-- rules reaches what is stored in bounded batches, while others read and write.

-- folded_text_v1: a text as it is compared letter by letter: one Unicode form, small letters, nothing invisible.
--
-- Full-width and other compatible forms become the plain ones (NFKC). Small letters are those of Unicode, whatever the
-- locale of the database; the sigma at a word's end is the other one. Characters that only steer how text is shown
-- (direction marks, joiners, soft hyphens, variation selectors, skin tones, keycaps) are left out: they would make another word of
-- the word they stand in; a zero-width space parts words, save beside characters of scripts without spaces.
-- Text beyond 60,000 characters (45,000 where they take four bytes each) is left out: a tsvector
-- holds at most 1 MB.
create function memdb.folded_text_v1 (p_text text)
  returns text
  language plpgsql immutable parallel safe
as $$
declare
  c_spaceless constant text :=
    '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff';
  c_invisible constant text :=
    '\u00ad\u180b-\u180d\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u20d0-\u20ff\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff\U000e0000-\U000e01ef';
  v_text text := pg_catalog.left(p_text, 60000);
begin
  if pg_catalog.octet_length(v_text) = pg_catalog.char_length(v_text) then
    return pg_catalog.lower(v_text collate pg_catalog.pg_c_utf8);
  end if;
  -- A trade mark sign would become letters of the word before it, an accent that stands alone a word.
  v_text := pg_catalog.left(pg_catalog.normalize(pg_catalog.translate(v_text, '™℠´¨¯¸', '      '), 'NFKC'), 60000);
  if pg_catalog.octet_length(v_text) > 180000 then
    v_text := pg_catalog.left(v_text, 45000);
  end if;
  if v_text ~ ('[\u200b' || c_invisible || ']') then
    v_text := pg_catalog.regexp_replace(v_text,
      '(?<=[' || c_spaceless || '])\u200b|\u200b(?=[' || c_spaceless || '])|[' || c_invisible || ']', '', 'g');
  end if;
  return pg_catalog.translate(pg_catalog.lower(v_text collate pg_catalog.pg_c_utf8), U&'\200B\2010\03C2', U&' -\03C3');
end $$;
comment on function memdb.folded_text_v1 (text) is 'A text as it is compared letter by letter: one Unicode form, small letters, nothing invisible.';

-- spaceless_pairs_v1: the characters of scripts without spaces in a folded text, and their overlapping pairs, each at its place.
create function memdb.spaceless_pairs_v1 (p_text text)
  returns tsvector
  language plpgsql immutable parallel safe
as $$
declare
  c_spaceless constant text :=
    '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff';
  v_units text := pg_catalog.regexp_replace(p_text, '[^0-9' || c_spaceless || ']+', ' | ', 'g');
begin
  v_units := pg_catalog.regexp_replace(v_units, '([' || c_spaceless || '])', ' \1 ', 'g');
  v_units := pg_catalog.regexp_replace(v_units, ' +', ' ', 'g');
  return (
    select coalesce(pg_catalog.string_agg(
             -- Numbers are words of the parser already; they only join pairs here.
             case when u.unit ~ '^[0-9]' then '' else u.unit || ':' || u.place end
             || case when u.following <> '|' then ' ' || u.unit || u.following || ':' || u.place else '' end,
             ' '), '')::pg_catalog.tsvector
      from (select w.unit, least(w.place, 16383) as place,
                   pg_catalog.lead(w.unit, 1, '|') over (order by w.place) as following
              from pg_catalog.unnest(pg_catalog.string_to_array(pg_catalog.btrim(v_units), ' '))
                   with ordinality as w (unit, place)) u
     where u.unit <> '|');
end $$;
comment on function memdb.spaceless_pairs_v1 (text) is 'The characters of scripts without spaces in a folded text, and their overlapping pairs, each at its place.';

-- keyword_text_v2: the searchable lexemes of a text, with the scope it belongs to.
--
-- The same in a database of any locale. ASCII words go through PostgreSQL's parser: English stems
-- and stop words for English, for texts of unknown language and for Latin words inside CJK text,
-- `simple` for the rest. Addresses, paths and names in code are lexemes as a whole and in their parts; a number
-- is one without its sign, so that A-1024 is found by 1024. Words of other letters end at any punctuation,
-- symbol or space; an emoji is a word. Scripts written without spaces (Chinese, Japanese,
-- Korean, Thai, Lao, Burmese, Khmer) become single characters and overlapping pairs, each at the character's
-- place; a number beside such a character counts as one character of it, so that 8月29日 gives 8月,
-- 月29 and 29日. p_scope goes in as it is. folded_text_v1 says how much of a text is read.
-- Stored, hence frozen here: a better one becomes keyword_text_v3, and keyword_renewal gets every tenant.
create function memdb.keyword_text_v2 (p_text text, p_heading text, p_language text, p_scope text[])
  returns tsvector
  language plpgsql immutable parallel safe
as $$
declare
  c_spaceless constant text :=
    '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff';
  -- What words consist of, ASCII letters and digits among it or not: no punctuation, no symbol, no space.
  c_breaks    constant text := '[:punct:][:space:][:cntrl:]' || c_spaceless;
  c_foreign   constant text := '[a-z0-9]*[^\x01-\x7f' || c_breaks || '][^\x01-\x2f\x3a-\x60\x7b-\x7f' || c_breaks || ']*';
  c_emoji     constant text := '[\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001faff]|[\U0001f1e6-\U0001f1ff]{2}';
  -- Signs that hold addresses, paths and names in code together; a point between digits is that of a number.
  c_joint     constant text := '[/\\@_:=&?#%~+|](?=[a-z0-9])|\.(?=[a-z])|(?<=[a-z])\.(?=[0-9])';
  v_body      text := memdb.folded_text_v1(coalesce(p_heading || ' ', '') || p_text);
  v_is_stemmed constant boolean := coalesce(p_language, 'en') in ('en', 'zh', 'ja', 'ko', 'th', 'lo', 'my', 'km');
  v_config    constant pg_catalog.regconfig := case when v_is_stemmed then 'pg_catalog.english' else 'pg_catalog.simple' end;
  v_found     pg_catalog.tsvector := pg_catalog.array_to_tsvector(p_scope);
begin
  if pg_catalog.octet_length(v_body) > pg_catalog.char_length(v_body) then
    if v_body ~ ('[' || c_spaceless || ']') then
      v_found := v_found || memdb.spaceless_pairs_v1(v_body);
    end if;
    -- Most texts that are not plain ASCII hold no more than these: what letters are is asked of the others.
    if v_body ~ ('[^\x01-\x7f\u2000-\u206f\u3000-\u303f' || c_spaceless || ']') then
      v_found := v_found || (
        select coalesce(pg_catalog.string_agg('''' || l.lexeme || ''':' || least(w.place, 16383), ' '), '')::pg_catalog.tsvector
          from pg_catalog.regexp_matches(v_body collate pg_catalog.pg_c_utf8, c_foreign || '|' || c_emoji, 'g')
               with ordinality w (part, place)
          cross join lateral pg_catalog.unnest(case
            when pg_catalog.octet_length(w.part[1]) > 2046 then null
            when v_is_stemmed then pg_catalog.ts_lexize('pg_catalog.english_stem', w.part[1])
            else w.part end) l (lexeme));
      v_body := pg_catalog.regexp_replace(v_body collate pg_catalog.pg_c_utf8, c_foreign, ' ', 'g');
    end if;
    v_body := pg_catalog.regexp_replace(v_body, '[^\x01-\x7f]+', ' ', 'g');
  end if;
  v_body := pg_catalog.regexp_replace(v_body, '[-+](?=[0-9])|[<>]', ' ', 'g');
  v_found := v_found || pg_catalog.to_tsvector(v_config, v_body);
  if v_body ~ c_joint then
    v_found := v_found || pg_catalog.to_tsvector(v_config, pg_catalog.regexp_replace(v_body, c_joint, ' ', 'g'));
  end if;
  return v_found;
end $$;
comment on function memdb.keyword_text_v2 (text, text, text, text[]) is 'The searchable lexemes of a text, with the scope it belongs to.';

create table memdb.keyword_renewal (
  tenant_id integer not null,
  memory_id bigint not null,
  constraint keyword_renewal_pkey primary key (tenant_id),
  constraint keyword_renewal_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.keyword_renewal is 'Tenants whose words were cut by older rules: versions of memories beyond memory_id may have other words.';
alter table memdb.keyword_renewal enable row level security;

insert into memdb.keyword_renewal (tenant_id, memory_id)
  select t.tenant_id, 0 from memdb.tenant t where exists (select from memdb.memory m where m.tenant_id = t.tenant_id);

-- Changes the catalogue only; every row keeps its words.
alter table memdb.memory_version alter column keyword drop expression;
comment on column memdb.memory_version.keyword is 'The words it is found by (keyword_text_v2), written by a trigger.';

-- Made anew from their files; the old ones name what goes here.
drop function if exists memdb._own_words(text);
drop function if exists memdb._word_overlap(text, text, text, text);
drop function if exists memdb._topic_label(integer, bigint);
drop function memdb.keyword_text_v1 (text, text, text, text[]);

-- Spellings of names are small letters of Unicode, where the locale of the database knew those of ASCII only.
-- Of several that become the same one does.
update memdb.entity_alias a set alias = pg_catalog.lower(a.alias collate pg_catalog.pg_c_utf8)
 where a.alias <> pg_catalog.lower(a.alias collate pg_catalog.pg_c_utf8)
   and not exists (
     select from memdb.entity_alias o
      where o.tenant_id = a.tenant_id and o.namespace_id = a.namespace_id and o.alias <> a.alias
        and pg_catalog.lower(o.alias collate pg_catalog.pg_c_utf8) = pg_catalog.lower(a.alias collate pg_catalog.pg_c_utf8)
        and (o.alias = pg_catalog.lower(a.alias collate pg_catalog.pg_c_utf8) or o.alias collate "C" < a.alias));
update memdb.assertion a
   set subject = pg_catalog.lower(a.subject collate pg_catalog.pg_c_utf8), value = pg_catalog.lower(a.value collate pg_catalog.pg_c_utf8)
 where a.subject <> pg_catalog.lower(a.subject collate pg_catalog.pg_c_utf8)
    or a.value <> pg_catalog.lower(a.value collate pg_catalog.pg_c_utf8);
