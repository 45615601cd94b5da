"""The keyword leg: query terms, exact BM25 with and without folded statistics."""

import math
import random
import secrets
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Connection
from tests.sql.rows import Rows

shared_db = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def terms(db: Connection, query: str) -> set[str]:
    row = db.execute("select memdb._query_terms(%s)", [query]).fetchone()
    assert row is not None
    return set(row[0])


def leg(world: Rows, words: list[str], limit: int = 50, **filters: Any) -> Any:
    """The row of _keyword_leg over the namespace `default`."""
    given = {
        "tenant": world.tenant,
        "namespaces": [world.namespace()],
        "user": None,
        "sessions": None,
        "types": None,
        "statuses": ["active"],
        **filters,
    }
    return world.db.execute(
        "select * from memdb._keyword_leg(%(tenant)s, %(namespaces)s, %(user)s, %(sessions)s,"
        " %(types)s, %(statuses)s, %(terms)s, %(limit)s)",
        {**given, "terms": words, "limit": limit},
    ).fetchone()


def fold(world: Rows) -> None:
    """Queue every current version and fold, as record_memories and the job do."""
    world.db.execute(
        "insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)"
        " select m.tenant_id, m.namespace_id, m.memory_id, m.version from memdb.memory m"
        " where m.tenant_id = %s",
        [world.tenant],
    )
    while world.one("select memdb.fold_keyword_stats(p_tenant => %(tenant)s)"):
        pass


# --- the terms of a query --------------------------------------------------------------


def test_words_are_searched_as_stems_and_as_they_stand(db):
    assert terms(db, "Who was camping?") == {"camp", "camping", "who", "was"}


def test_pairs_of_chinese_characters_are_searched(db):
    assert terms(db, "银行贷款") == {"银行", "行贷", "贷款"}


def test_a_pair_with_a_function_character_says_little(db):
    assert terms(db, "贷款的利率") == {"贷款", "利率"}
    assert terms(db, "貸款與利率") == {"貸款", "利率"}


def test_two_chinese_characters_are_a_query(db):
    assert terms(db, "贷款") == {"贷款"}


def test_one_chinese_character_is_a_query_where_nothing_else_is_left(db):
    assert terms(db, "茶") == {"茶"}
    assert terms(db, "是的") == {"是", "的", "是的"}


@pytest.mark.parametrize("query", ["茶 tea", "tea，茶！", "tea茶", "ＴＥＡ 与茶", "tea的茶"])
def test_one_chinese_character_alone_is_searched_beside_other_words(db, query):
    assert terms(db, query) == {"tea", "茶"}


def test_a_character_between_function_characters_stands_alone(db):
    assert terms(db, "我的猫呢？") == {"我", "猫"}
    assert terms(db, "Tom的猫和狗") == {"tom", "猫", "狗"}


def test_a_character_in_a_word_is_searched_with_it(db):
    assert terms(db, "绿茶 tea") == {"绿茶", "tea"}
    assert "年" not in terms(db, "2023年 tea")


def test_dates_are_searched_as_numbers_and_pairs(db):
    assert {"8月", "月29", "29日", "8", "29"} <= terms(db, "8月29日")


@pytest.mark.parametrize("query", ["", "   ", "?!", "'", "\\", "&|!()"])
def test_a_query_without_words_has_no_terms(db, query):
    assert terms(db, query) == set()


def test_a_long_query_is_cut(db):
    words = " ".join(f"w{n}" for n in range(5000))
    assert len(terms(db, words)) == 256


@shared_db
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
    )
)
def test_any_lexemes_make_a_tsquery_that_finds_them(db, lexemes):
    lexemes = sorted({w for w in lexemes if w.strip()})
    row = db.execute(
        "select count(*) from unnest(%(words)s::text[]) w (word)"
        " where array_to_tsvector(array[w.word]) @@ memdb._any_term(%(words)s)::tsquery",
        {"words": lexemes},
    ).fetchone()
    assert row[0] == len(lexemes)


# --- BM25 against counting everything in Python ------------------------------------------

VOCABULARY = [f"word{n}" for n in range(60)]


def write(world: Rows, documents: list[list[str]]) -> dict[int, list[str]]:
    """One memory a document, indexed as it stands."""
    return {
        world.memory(" ".join(words), language="xx", content_hash=secrets.token_bytes(8)): words
        for words in documents
    }


def bm25(documents: dict[int, list[str]], query: list[str]) -> list[tuple[int, float]]:
    """Presence BM25 with k1 0.9 and b 0.4, best first."""
    held = {memory: set(words) for memory, words in documents.items()}
    mean = sum(map(len, held.values())) / len(held)
    scores = {}
    for memory, words in held.items():
        found = words & set(query)
        if found:
            weight = 1 / (0.6 + 0.4 * len(words) / mean)
            idf = 0.0
            for term in found:
                n = sum(term in other for other in held.values())
                idf += math.log(1 + (len(held) - n + 0.5) / (n + 0.5))
            scores[memory] = idf * 1.9 * weight / (0.9 + weight)
    return sorted(scores.items(), key=lambda item: (-round(item[1], 9), item[0]))


def skewed(chance: random.Random, count: int) -> list[list[str]]:
    weights = [1 / (rank + 1) for rank in range(len(VOCABULARY))]
    return [chance.choices(VOCABULARY, weights, k=chance.randint(3, 30)) for _ in range(count)]


def assert_same_ranking(found: Any, expected: list[tuple[int, float]], depth: int) -> None:
    scores = [score for _, score in expected[:depth]]
    assert found.scores[:depth] == pytest.approx(scores)
    # Where scores tie across the cut, which of the equals comes in is a matter of ids.
    assert set(found.memory_ids[:depth]) <= {
        memory for memory, score in expected if score >= scores[-1] - 1e-9
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_small_scope_is_scored_exactly_without_statistics(world, seed):
    chance = random.Random(seed)
    documents = write(world, skewed(chance, 80))
    query = chance.sample(VOCABULARY, 6)
    expected = bm25(documents, query)
    found = leg(world, query, limit=len(expected))
    assert found.documents == len(documents)
    # The mean length is taken over what matched, so the order may differ a little, the set not.
    assert set(found.memory_ids) == {memory for memory, _ in expected}


@pytest.fixture(scope="module")
def folded(dsn: str) -> Any:
    """900 memories with folded statistics, committed once for the tests of this module."""
    import psycopg
    from psycopg.rows import namedtuple_row

    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
        name = f"folded-{secrets.token_hex(4)}"
        row = connection.execute("select t.tenant_id from memdb.create_tenant(%s) t", [name])
        world = Rows(connection, row.fetchone()[0])
        documents = write(world, skewed(random.Random(7), 900))
        fold(world)
        connection.commit()
        yield world, documents


@shared_db
@given(query=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=14, unique=True))
def test_the_first_twenty_of_a_folded_scope_are_exact(folded, query):
    world, documents = folded
    expected = bm25(documents, query)
    found = leg(world, query, limit=30)
    assert len(found.memory_ids) == min(30, len(expected))
    assert_same_ranking(found, expected, min(20, len(expected)))


@shared_db
@given(query=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8, unique=True))
def test_scoring_every_match_gives_what_the_statistics_give(folded, query):
    world, documents = folded
    idf = [1.0] * len(query)
    counted = world.db.execute(
        "select (memdb._count_matches(%s, %s, null, null, null, '{active}', %s, 20)).*",
        [world.tenant, [world.namespace()], query],
    ).fetchone()
    found = leg(world, query, limit=20)
    assert counted.documents == found.documents == len(documents)
    assert dict(zip(query, counted.idf, strict=True)) == pytest.approx(
        dict(zip(found.terms, found.idf, strict=True))
    )
    assert len(idf) == len(found.terms)


def test_of_many_terms_the_rarest_sixty_four_count(folded):
    world, _ = folded
    found = leg(world, VOCABULARY + [f"unknown{n}" for n in range(40)])
    assert len(found.terms) == len(found.idf) == 64
    assert set(found.terms) >= {f"unknown{n}" for n in range(40)}
    assert found.idf == sorted(found.idf, reverse=True)


def test_a_word_the_statistics_do_not_know_yet_is_found(folded):
    world, _ = folded
    with world.db.transaction(force_rollback=True):
        memory = world.memory("zanzibar", content_hash=b"zanzibar")
        assert leg(world, ["zanzibar", VOCABULARY[0]]).memory_ids[0] == memory


def test_stale_matches_do_not_hide_active_ones(folded):
    """Status is looked up for the best rows only, and deeper where too few of them pass."""
    world, documents = folded
    query = [VOCABULARY[1]]
    with world.db.transaction(force_rollback=True):
        expected = [memory for memory, _ in bm25(documents, query)]
        kept = expected[-5:]
        world.db.execute(
            "update memdb.memory set status = 'stale'"
            " where tenant_id = %s and memory_id <> all (%s)",
            [world.tenant, kept],
        )
        assert set(leg(world, query, limit=10).memory_ids) == set(kept)


def test_the_queue_of_other_namespaces_is_not_read(world):
    world.db.execute(
        "insert into memdb.keyword_queue (tenant_id, namespace_id, lexemes, sign)"
        " select %s, n, '{tea}', 1 from unnest(%s::integer[]) n, generate_series(1, 60)",
        [world.tenant, [world.namespace(f"other/{n}") for n in range(50)]],
    )
    world.db.execute("analyze memdb.keyword_queue")
    # Without reading in sequence, as in the legs of words.
    world.db.execute("set local enable_seqscan = off")
    read = (
        "select sum(pg_stat_get_xact_tuples_returned(c.oid)) from pg_class c"
        " where c.oid = 'memdb.keyword_queue'::regclass"
        " or c.relname like 'keyword_queue%%idx' or c.relname = 'keyword_queue_pkey'"
    )
    before = world.one(read)
    queued = world.db.execute(
        "select queued from memdb._scope_statistics(%s, %s, '{tea}')",
        [world.tenant, [world.namespace()]],
    ).fetchone()
    assert queued == (0,)
    assert world.one(read) - before < 100


# --- what could still beat a score --------------------------------------------------------


@shared_db
@given(data=st.data())
def test_whatever_can_reach_the_score_is_searched(db, data):
    """A document without the used terms whose idf sum reaches the bound satisfies the query."""
    idf = sorted(
        data.draw(st.lists(st.floats(min_value=0.01, max_value=9), min_size=1, max_size=9)),
        reverse=True,
    )
    words = [f"t{n}" for n in range(len(idf))]
    used = data.draw(st.integers(min_value=0, max_value=len(idf) - 1))
    held = data.draw(st.sets(st.integers(min_value=used, max_value=len(idf) - 1), min_size=1))
    total = sum(idf[n] for n in held)
    least = data.draw(st.floats(min_value=0.01, max_value=30))
    row = db.execute(
        "select array_to_tsvector(%s::text[])"
        " @@ (memdb._beating_query(%s, %s::float8[], %s, %s::float8))::tsquery",
        [[words[n] for n in held], words, idf, used, least],
    ).fetchone()
    if total >= least * (1 + 1e-9):
        assert row[0] is True


def test_nothing_is_searched_where_nothing_can_reach_the_score(db):
    row = db.execute("select memdb._beating_query('{a,b,c}', '{3,2,1}', 1, 3.5)").fetchone()
    assert row[0] is None
