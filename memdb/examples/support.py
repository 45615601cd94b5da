"""A customer's order has not arrived, though it was signed for; an older case knows where it is.

What it shows: a case of one customer helps another; the tool's answer is an event like any other;
the decision rests on both; two corrections, weeks later, change what the agent says, and no more.

    python -m memdb.examples.support --language zh
"""

from dataclasses import dataclass

from memdb.client import Memory
from memdb.examples.agent import Agent
from memdb.examples.story import Question, completed, main
from memdb.models.base import Complete
from memdb.types import EventRef, MemoryRef

__all__ = ["TEXTS", "Case", "Texts", "questions", "tell"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of the story in one language."""

    agent: str
    older_complaint: str
    older_answer: str
    habit: str
    complaint: str
    tracking: str
    decision: str
    moved: str
    places: tuple[str, str]
    misread: str
    days: tuple[str, str]
    where: str
    when: str


TEXTS = {
    "en": Texts(
        agent="Desk",
        older_complaint="My parcel 4471 for Mill Lane is marked as signed for, and I have nothing.",
        older_answer="Found 4471: the courier leaves Mill Lane parcels at the shop in Oak Street.",
        habit="Parcels for Mill Lane that were signed for are at the shop in Oak Street.",
        complaint="My order 7702 has not arrived. I live at 12 Mill Lane.",
        tracking="Order 7702 for 12 Mill Lane was signed for on 3 May.",
        decision="Send Ann to the shop in Oak Street for order 7702.",
        moved="Found 4471: the courier leaves Mill Lane parcels at the kiosk in Elm Road.",
        places=("shop in Oak Street", "kiosk in Elm Road"),
        misread="Order 7702 for 12 Mill Lane was signed for on 5 May.",
        days=("3 May", "5 May"),
        where="Where are parcels for Mill Lane that were signed for?",
        when="When was order 7702 signed for?",
    ),
    "zh": Texts(
        agent="客服",
        older_complaint="包裹4471寄到磨坊巷，显示已签收，可是我没有收到。",
        older_answer="4471找到了：快递员把磨坊巷的包裹放在橡树街便利店。",
        habit="磨坊巷显示已签收的包裹都放在橡树街便利店。",
        complaint="我的订单7702还没到，我住在磨坊巷12号。",
        tracking="订单7702寄往磨坊巷12号，5月3日已签收。",
        decision="请王芳到橡树街便利店取订单7702。",
        moved="4471找到了：快递员把磨坊巷的包裹放在榆树路报亭。",
        places=("橡树街便利店", "榆树路报亭"),
        misread="订单7702寄往磨坊巷12号，5月5日已签收。",
        days=("5月3日", "5月5日"),
        where="磨坊巷显示已签收的包裹放在哪里？",
        when="订单7702是哪天签收的？",
    ),
}
_CUSTOMERS = {"en": ("Ben", "Ann"), "zh": ("李强", "王芳")}


class Case:
    """The story as calls of the facade, one method for each act."""

    def __init__(self, memory: Memory, language: str = "en") -> None:
        self._memory = memory
        self._texts = TEXTS[language]
        self._older, self._customer = _CUSTOMERS[language]
        self.found: EventRef | None = None
        self.tracked: EventRef | None = None
        self.habit: MemoryRef | None = None

    def older_case(self) -> MemoryRef:
        """A month ago: a parcel turned up, and what was learnt from it is kept."""
        texts, say = self._texts, self._memory.observe
        say(texts.older_complaint, session="case-4471", speaker=self._older, extract=False)
        self.found = say(
            texts.older_answer,
            kind="assistant_message",
            session="case-4471",
            speaker=texts.agent,
            extract=False,
        )
        self.habit = self._memory.remember(
            texts.habit, type="fact", method="template", sources=[self.found]
        )
        return self.habit

    def new_case(self) -> MemoryRef:
        """Today: a complaint, a look into the tracking system, and a decision on both."""
        texts, say = self._texts, self._memory.observe
        assert self.habit, "the older case comes first"
        asked = say(
            texts.complaint, session="case-7702", speaker=self._customer, user=self._customer
        )
        self.tracked = say(
            texts.tracking,
            kind="tool_result",
            session="case-7702",
            input={"tool": "track_order", "order": 7702},
            parent_event_id=asked.event_id,
            extract=False,
        )
        arrival = self._memory.remember(
            texts.tracking, type="fact", method="template", sources=[self.tracked]
        )
        return self._memory.remember(
            texts.decision,
            type="decision",
            method="template",
            sources=[asked, arrival, self.habit],
        )

    def corrections(self) -> int:
        """Weeks later: the shop was another one, and the tracking system misread a day."""
        texts = self._texts
        assert self.found and self.tracked, "both cases come first"
        moved = self._memory.correct(
            self.found.event_id, texts.moved, values=dict([texts.places]), reason="courier"
        )
        misread = self._memory.correct(
            self.tracked.event_id, texts.misread, values=dict([texts.days]), reason="scanner"
        )
        return len(moved) + len(misread)


def questions(language: str, *, corrected: bool) -> tuple[Question, ...]:
    """Return what a customer may ask, with what is right before or after the corrections."""
    texts = TEXTS[language]
    old_place, new_place = texts.places
    old_day, new_day = texts.days
    if corrected:
        return Question(texts.where, new_place, old_place), Question(texts.when, new_day, old_day)
    return Question(texts.where, old_place), Question(texts.when, old_day)


def tell(memory: Memory, model: Complete, language: str) -> None:
    """Tell the story of a parcel that was signed for and never came."""
    case = Case(memory, language)
    case.older_case()
    decision = case.new_case()
    agent = Agent(memory, model, session="desk")
    forgetful = Agent(memory, model, session="desk", has_memory=False)
    asked = questions(language, corrected=False)
    for question in asked:
        print(f"{question.text}\n  {agent.ask(question.text).text}")
    print(memory.why(decision.memory_id))
    print(f"{case.corrections()} events and memories changed by two corrections")
    asked = questions(language, corrected=True)
    for question in asked:
        print(f"{question.text}\n  {agent.ask(question.text).text}")
    print(f"tasks completed: {completed(agent, asked):.0%}; ", end="")
    print(f"without memory: {completed(forgetful, asked):.0%}")


if __name__ == "__main__":
    main(tell)
