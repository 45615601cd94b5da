"""A journey planned over weeks: why Barcelona, and what a changed allergy does to a dinner.

What it shows: a decision keeps the reasons it was made for, so it can be explained weeks later; a
plan that rests on a fact falls with the fact, and the agent stops saying it.

    python -m memdb.examples.travel --language zh
"""

from dataclasses import dataclass

from memdb.client import Memory
from memdb.examples.agent import Agent
from memdb.examples.story import Question, completed, main
from memdb.models.base import Complete
from memdb.types import EventRef, MemoryRef

__all__ = ["TEXTS", "Journey", "Texts", "questions", "tell"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of the story in one language."""

    traveller: str
    wish: str
    budget: str
    lisbon: str
    barcelona: str
    decision: str
    allergy: str
    allergic: str
    dinner: str
    restaurant: str
    corrected: str
    allergens: tuple[str, str]
    why: str
    table: str
    what: str


TEXTS = {
    "en": Texts(
        traveller="Mei",
        wish="I want a city by the sea in May, with a direct flight from Berlin.",
        budget="The whole journey must cost at most 900 euros.",
        lisbon="Lisbon in May: no direct flight from Berlin, 1050 euros.",
        barcelona="Barcelona in May: by the sea, direct flight from Berlin, 780 euros.",
        decision="We chose Barcelona: by the sea, a direct flight, and within 900 euros.",
        allergy="Please note for every restaurant: I am allergic to shellfish.",
        allergic="Mei is allergic to shellfish.",
        dinner="Dinner on Friday is at Can Pere, which serves no shellfish.",
        restaurant="Can Pere",
        corrected="Please note for every restaurant: I am allergic to peanuts.",
        allergens=("shellfish", "peanuts"),
        why="Why did we choose Barcelona?",
        table="Where is dinner on Friday?",
        what="What is Mei allergic to?",
    ),
    "zh": Texts(
        traveller="王芳",
        wish="五月想去一个海边城市，要从柏林直飞。",
        budget="全程费用不能超过900欧元。",
        lisbon="里斯本五月：柏林没有直飞，1050欧元。",
        barcelona="巴塞罗那五月：靠海，柏林直飞，780欧元。",
        decision="我们选择巴塞罗那：靠海，直飞，不超过900欧元。",
        allergy="订餐厅请一定注意：我对贝类过敏。",
        allergic="王芳对贝类过敏。",
        dinner="周五晚餐订在佩雷之家，那里不用贝类。",
        restaurant="佩雷之家",
        corrected="订餐厅请一定注意：我对花生过敏。",
        allergens=("贝类", "花生"),
        why="我们为什么选择巴塞罗那？",
        table="周五晚餐订在哪里？",
        what="王芳对什么过敏？",
    ),
}


class Journey:
    """The story as calls of the facade, one method for each act."""

    def __init__(self, memory: Memory, language: str = "en") -> None:
        self._memory = memory
        self._texts = TEXTS[language]
        self.noted: EventRef | None = None
        self.dinner: MemoryRef | None = None

    def choose(self) -> MemoryRef:
        """Week one: wishes, two offers a tool found, and a decision on all of them."""
        texts = self._texts
        wishes = [self._said(text, "planning") for text in (texts.wish, texts.budget)]
        offers = [
            self._memory.observe(
                text,
                kind="tool_result",
                session="planning",
                input={"tool": "search_flights"},
                occurred_at="2026-03-02T10:05:00Z",
                extract=False,
            )
            for text in (texts.lisbon, texts.barcelona)
        ]
        return self._memory.remember(
            texts.decision,
            type="decision",
            method="manual",
            sources=[*wishes, *offers],
            occurred_at="2026-03-02T10:10:00Z",
        )

    def plan_dinner(self) -> MemoryRef:
        """Week three: an allergy, what follows from it, and a table that suits it."""
        texts = self._texts
        self.noted = self._said(texts.allergy, "restaurants")
        allergic = self._memory.remember(
            texts.allergic, type="constraint", method="template", sources=[self.noted]
        )
        self.dinner = self._memory.remember(
            texts.dinner, type="decision", method="manual", sources=[allergic]
        )
        return self.dinner

    def change_allergy(self) -> int:
        """Week five: it is another allergy. Everything that rested on the old one falls."""
        texts = self._texts
        assert self.noted, "the dinner comes first"
        changes = self._memory.correct(
            self.noted.event_id,
            texts.corrected,
            values=dict([texts.allergens]),
            reason=f"{texts.traveller}'s doctor",
        )
        return len(changes)

    def _said(self, text: str, session: str) -> EventRef:
        return self._memory.observe(
            text,
            session=session,
            speaker=self._texts.traveller,
            occurred_at="2026-03-02T10:00:00Z",
            extract=False,
        )


def questions(language: str, *, changed: bool) -> tuple[Question, ...]:
    """Return what the traveller may ask, with what is right before or after the change."""
    texts = TEXTS[language]
    old, new = texts.allergens
    why = Question(texts.why, "900")
    if changed:
        return why, Question(texts.what, new, old)
    return why, Question(texts.what, old), Question(texts.table, texts.restaurant)


def tell(memory: Memory, model: Complete, language: str) -> None:
    """Tell the story of a journey planned over weeks."""
    texts = TEXTS[language]
    journey = Journey(memory, language)
    decision = journey.choose()
    journey.plan_dinner()
    agent = Agent(memory, model, session="weeks later")
    forgetful = Agent(memory, model, session="weeks later", has_memory=False)
    for question in questions(language, changed=False):
        print(f"{question.text}\n  {agent.ask(question.text).text}")
    print(memory.why(decision.memory_id))
    print(f"{journey.change_allergy()} events and memories changed by one correction")
    print(f"{texts.table}\n  {agent.ask(texts.table).text}")
    asked = questions(language, changed=True)
    print(f"tasks completed: {completed(agent, asked):.0%}; ", end="")
    print(f"without memory: {completed(forgetful, asked):.0%}")


if __name__ == "__main__":
    main(tell)
