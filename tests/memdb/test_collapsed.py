"""What collapsed into a hit is told apart from its legs."""

from memdb import Memory


def test_a_hit_names_what_collapsed_into_it(dsn):
    with Memory(dsn, tenant="collapsed", encoder=None, create_tenant=True) as memory:
        text = "Ann wrote a long letter about her journey through northern Norway"
        one = memory.remember(text, external_id="1")
        other = memory.remember(f"{text}!", external_id="2")
        found = memory.recall("letter about the journey through Norway")
    assert len(found) == 1 and "collapsed" not in found.legs
    assert {found[0].memory_id, *found[0].collapsed} == {one.memory_id, other.memory_id}
    assert "collapsed" not in found[0].legs and found[0].legs
