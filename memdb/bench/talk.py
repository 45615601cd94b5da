"""Made-up conversations in two wordings, English and Chinese: told twice is not twice as much.

Every second telling says what the first one said, in other words. What should become a memory is
marked; the rest is small talk and questions, which should not.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Turn", "talk"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: who says it, in which language, and whether it tells something."""

    session: str
    speaker: str
    language: str
    text: str
    tells: bool


_FACTS_EN = [
    ("I live in {city}.", "I'm living in {city} these days."),
    ("I work at {company}.", "I'm working at {company} now."),
    ("My name is {name}.", "My full name is {name}."),
    ("I'm allergic to {food}.", "I have a {food} allergy."),
    ("I like {hobby}.", "I really enjoy {hobby}."),
    ("The budget for {project} is {n} euros.", "Our {project} budget is {n} euros."),
    ("My sister lives in {city}.", "My sister is living in {city}."),
    ("We decided to go with {company} for the {project} printers.",
     "For the {project} printers we have decided to go with {company}."),
    ("Yesterday I bought a blue bicycle for {n} euros in {city}.",
     "I bought a blue bicycle in {city} yesterday, for {n} euros."),
    ("The {project} report must be printed on both sides and sent to {name}.",
     "It is required that the {project} report is printed on both sides and goes to {name}."),
    ("Last week {name} fixed the broken heating in the {city} office.",
     "The broken heating in the {city} office was fixed by {name} last week."),
]  # fmt: skip
_CHAT_EN = [
    ("Hi there!", "Hello!"),
    ("How are you today?", "How is it going?"),
    ("That sounds great, thanks!", "Oh, wonderful, thank you!"),
    ("What do you think about it?", "Do you have any idea about it?"),
    ("Haha, yes, totally.", "Yeah, absolutely."),
]
_FACTS_ZH = [
    ("我住在{city}。", "我现在住在{city}。"),
    ("我在{company}工作。", "我现在在{company}上班。"),
    ("我叫{name}。", "我的名字是{name}。"),
    ("我对{food}过敏。", "我对{food}会过敏。"),
    ("我喜欢{hobby}。", "我很喜欢{hobby}。"),
    ("{project}的预算是{n}元。", "{project}的预算为{n}元。"),
    ("我姐姐住在{city}。", "我姐姐现在住在{city}。"),
    (
        "我们决定让{company}负责{project}的打印机。",
        "{project}的打印机，我们决定交给{company}负责。",
    ),
    ("昨天我在{city}花{n}元买了一辆蓝色自行车。", "我昨天在{city}买了一辆蓝色自行车，花了{n}元。"),
    ("{project}的报告必须双面打印并寄给{name}。", "{project}的报告要求双面打印，然后寄给{name}。"),
]
_CHAT_ZH = [
    ("你好！", "您好！"),
    ("你今天怎么样？", "最近好吗？"),
    ("太好了，谢谢！", "真棒，多谢！"),
    ("你觉得呢？", "你有什么想法吗？"),
]
_SLOTS_EN = {
    "city": ["Berlin", "Lisbon", "Oslo", "Madrid", "Vienna", "Dublin", "Prague", "Athens"],
    "company": ["Siemens", "Contoso", "Initech", "Globex", "Umbrella", "Hooli"],
    "name": ["Ann Lee", "Bob Stone", "Carla Diaz", "Dan Fox", "Eva Klein"],
    "food": ["peanuts", "shellfish", "soy", "milk", "sesame"],
    "hobby": ["chess", "climbing", "painting", "sailing", "gardening", "jazz"],
    "project": ["Apollo", "Borealis", "Cascade", "Delta"],
}
_SLOTS_ZH = {
    "city": ["北京", "上海", "广州", "成都", "杭州", "西安"],
    "company": ["华兴", "远景", "蓝海", "星辰"],
    "name": ["李明", "王芳", "张伟", "刘洋"],
    "food": ["花生", "海鲜", "大豆", "牛奶"],
    "hobby": ["围棋", "爬山", "画画", "游泳", "园艺"],
    "project": ["阿波罗项目", "北极星项目", "瀑布项目"],
}


def talk(turns: int, telling: int = 0, *, seed: int = 5) -> Iterator[Turn]:
    """Yield about so many turns; `telling` 1 says the same as 0, in other words.

    A session has 20 turns and one speaker, every other one Chinese.
    """
    for number in range(-(-turns // 20)):
        chance = random.Random(seed * 1_000_003 + number)
        is_chinese = number % 2 == 1
        facts, chat = (_FACTS_ZH, _CHAT_ZH) if is_chinese else (_FACTS_EN, _CHAT_EN)
        slots = _SLOTS_ZH if is_chinese else _SLOTS_EN
        speaker = f"说话人{number}" if is_chinese else f"Speaker {number}"
        chosen = chance.sample(facts, min(10, len(facts)))
        lines = [(pair, True) for pair in chosen] + [
            (chance.choice(chat), False) for _ in range(10)
        ]
        chance.shuffle(lines)
        for pair, tells in lines:
            filled = {slot: chance.choice(values) for slot, values in slots.items()}
            text = pair[telling].format(n=chance.randrange(100, 9900), **filled)
            yield Turn(f"{telling}-{number}", speaker, "zh" if is_chinese else "en", text, tells)
