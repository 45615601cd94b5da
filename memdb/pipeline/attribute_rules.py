"""How the few attributes that rules can tell are said, in English and in Chinese.

One rule a way of saying it. Groups of a pattern: `value`; `whose` where the subject is another
one than the speaker; `what`, `of` and `for` for properties of things ("the budget for Apollo").
"""

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of saying one attribute.

    `is_single`: two values exclude each other. `takes`: what a value must look like: a name
    (with a capital, in languages that have them), or anything.
    """

    attribute: str
    pattern: re.Pattern[str]
    is_single: bool = True
    is_negated: bool = False
    takes: Literal["name", "any"] = "any"


def _rules(
    attribute: str,
    *patterns: str,
    single: bool = True,
    negated: bool = False,
    takes: Literal["name", "any"] = "any",
) -> list[Rule]:
    compiled = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
    return [Rule(attribute, pattern, single, negated, takes) for pattern in compiled]


# --- English -------------------------------------------------------------------------------

_ADVERB = (
    r"(?: (?:now|currently|just|recently|still|actually|finally|also|really|already|have|"
    r"don't|don’t|do not|no longer|'ve))*"
)
_I = rf"\b(?:i|i'm|i’m|i've|i’ve|i am)(?: not)?{_ADVERB}"
_HE = r"(?P<whose>\bmy \w+|(?-i:\b[A-Z][\w’]+(?: [A-Z][\w’]+)?))(?: now| currently| just)*"
# A comma ends a value, unless it stands in a number.
_VALUE = r"(?P<value>(?:[^,.;:!?()\[\]\n]|[,.:](?=\d)){1,80})"
_FEW = r"(?P<value>[\w'’-]+(?: [\w'’-]+){0,5})"
_THING = (
    r"budget|deadline|due date|delivery date|delivery|launch date|release date|price|owner|venue|"
    r"version|headcount"
)
_BECAME = (
    r"(?:(?:'s| is| was| has been| have been| will be)?(?: now| moved| changed| set| scheduled|"
    r" pushed| postponed| increased| raised| reduced| cut| went up| went down)*(?: back)?"
    r"(?: to| on| at| by)?)"
)

_ENGLISH = [
    *_rules(
        "residence",
        rf"{_I} (?:live|living|based|reside|settled) (?:in|at) (?:the )?{_VALUE}",
        rf"{_I} (?:moved|relocated) (?:back |over )*to (?:the )?{_VALUE}",
        rf"{_HE} (?:lives|moved|is living|relocated) (?:back )?(?:in|to) (?:the )?{_VALUE}",
        takes="name",
    ),
    *_rules(
        "employer",
        rf"{_I} (?:work|working|employed) (?:at|for) {_VALUE}",
        rf"{_I} (?:started|began)(?: working| an? (?:new )?job| my (?:new )?job)? at {_VALUE}",
        rf"{_HE} (?:works|started working|is employed) (?:at|for) {_VALUE}",
        takes="name",
    ),
    *_rules("occupation", rf"{_I} work(?:ing)? as an? {_FEW}", rf"\bmy job is (?:an? )?{_FEW}"),
    *_rules("name", rf"\bmy (?:full )?name(?: is|'s|’s) {_VALUE}", takes="name"),
    *_rules(
        "age",
        rf"{_I} (?:turned )?(?P<value>\d{{1,3}})(?: years old|-years-old)",
        r"\bi(?: just| recently)? turned (?P<value>\d{1,3})\b",
    ),
    *_rules("birthday", rf"\bmy birthday(?: is|'s|’s) (?:on )?(?:the )?{_VALUE}"),
    *_rules(
        "phone",
        r"\bmy (?:new |mobile |cell |phone )*(?:number|phone|mobile|cell)(?: is|'s|:) "
        r"(?:now )?(?P<value>\+?\d[\d ()-]{4,20}\d)",
    ),
    *_rules(
        "email",
        r"\bmy (?:new )?e-?mail(?: address)?(?: is|'s|:) (?:now )?"
        r"(?P<value>[\w.+-]+@[\w-]+\.[\w.-]+\w)",
    ),
    *_rules("origin", rf"{_I} (?:originally )?from {_VALUE}", takes="name"),
    *_rules(
        "spouse_name",
        rf"\bmy (?:wife|husband|spouse)(?:'s name)? is (?:called |named )?{_VALUE}",
        takes="name",
    ),
    *_rules(
        "allergy",
        rf"{_I} (?:\w+ )?allergic to {_FEW}",
        r"\bi have an? (?:severe |mild |bad )?(?P<value>[\w-]+(?: [\w-]+)?) allergy\b",
        single=False,
    ),
    *_rules("diet", rf"{_I} (?:an? )?(?P<value>vegetarian|vegan|pescatarian)\b", single=False),
    *_rules("favorite", rf"\bmy favou?rite (?P<what>[\w ]{{2,30}}?)(?: is|'s|’s) (?:now )?{_FEW}"),
    *_rules(
        "likes",
        rf"{_I} (?:like|love|enjoy|prefer|adore|fond of|a fan of|into) {_FEW}",
        single=False,
    ),
    *_rules(
        "likes",
        rf"{_I} (?:hate|dislike|detest|can't stand|can’t stand|cannot stand) {_FEW}",
        single=False,
        negated=True,
    ),
    *_rules(
        "of_thing",
        rf"\b(?:the|our|my) (?:(?P<of>[\w-]+(?: [\w-]+)?)(?:'s|’s)? )??(?P<what>{_THING})"
        rf"(?: (?:for|of) (?:the )?(?P<for>[\w-]+(?: [\w-]+){{0,3}}?))?{_BECAME} (?:the )?{_VALUE}",
    ),
]

# --- Chinese -------------------------------------------------------------------------------

_AT_ZH = (
    r"(?:[上本这下]+个?(?:周|月|星期|礼拜)[一二三四五六日天末]?|去年|今年|前年|昨天|今天|前天|年初|年底|"
    r"\d{1,2}月份?|[一二三四五六七八九十]+月份?)"
)
_WO = rf"我(?:现在|目前|已经|最近|刚刚?|终于|其实|真的|确实|也|还|就|又|不再|不|没有?再|{_AT_ZH})*"
_TA = (
    r"(?P<whose>我的?(?:妻子|老婆|丈夫|老公|爸爸|妈妈|父亲|母亲|儿子|女儿|哥哥|姐姐|弟弟|妹妹|朋友|同事|"
    rf"老板))(?:现在|目前|已经|刚刚?|最近|{_AT_ZH})*"
)
_ZHI = r"(?P<value>[^，。；：！？,.;!?（）()\[\]\n的]{1,30})"
_JIA = r"(?P<value>(?!的)[^，。；：！？;!?（）()\[\]\n]{1,30})"
_VERY = r"(?:很|非常|特别|最|更|挺|比较|真的|超级?)*"
_THING_ZH = "预算|截止日期|截止时间|价格|交货日期|交货期|交付日期|发布日期|上线日期|负责人|版本"
_IS_ZH = (
    r"(?:现在|已经|已|最终|也)*(?:是|为|改成|改为|改到|改在|定为|定在|定于|变成|变为|推迟到|提前到|延期到|"
    r"增加到|提高到|降到|减少到|调整为|调整到)了?"
)

_CHINESE = [
    *_rules(
        "residence",
        rf"{_WO}(?:居住|定居|常住|安家|住)(?:在|于)?了?{_ZHI}",
        rf"{_WO}(?:从[^，。]{{1,12}}?)?(?:搬到|搬去|搬回|搬家到|迁到)了?{_ZHI}",
        rf"我家(?:现在|已经)*(?:在|搬到了?){_ZHI}",
        rf"{_TA}(?:居住|定居|住|搬到|搬去)(?:在|于)?了?{_ZHI}",
    ),
    *_rules(
        "employer",
        rf"{_WO}在(?P<value>[^，。；！？的]{{1,20}}?)(?:工作|上班|任职|就职)",
        rf"{_WO}(?:就职于|任职于|供职于|入职了?|跳槽到了?|跳槽去了?){_ZHI}",
        rf"{_TA}在(?P<value>[^，。；！？的]{{1,20}}?)(?:工作|上班|任职)",
    ),
    *_rules("occupation", rf"我的(?:职业|工作)是{_JIA}"),
    *_rules("name", rf"我(?:叫做?|名叫){_ZHI}", rf"我的名字(?:是|叫){_ZHI}"),
    *_rules(
        "age", r"我(?:今年|现在|已经|刚刚?|都)*满?(?P<value>\d{1,3}|[一二三四五六七八九十]{1,3})岁"
    ),
    *_rules("birthday", rf"我的?生日是?在?{_ZHI}"),
    *_rules(
        "phone",
        r"我的?新?(?:手机|电话|联系电话)(?:号码|号)?(?:是|改成|换成|：|:)了?"
        r"(?P<value>\+?\d[\d -]{5,20}\d)",
    ),
    *_rules(
        "email",
        r"我的?新?(?:邮箱|电子邮件)(?:地址)?(?:是|改成|换成|：|:)了?(?P<value>[\w.+-]+@[\w-]+\.[\w.-]+\w)",
    ),
    *_rules(
        "origin",
        r"我是(?P<value>[^，。；！？的一]{2,8})人(?:$|[，。；！])",
        rf"我(?:来自|老家在|出生在|出生于){_ZHI}",
    ),
    *_rules("spouse_name", rf"我的?(?:妻子|老婆|丈夫|老公|太太)(?:的名字)?(?:叫|名叫){_ZHI}"),
    *_rules("allergy", rf"{_WO}对{_JIA}过敏", single=False),
    *_rules("diet", rf"{_WO}(?:只)?吃(?P<value>素|全素|纯素)", single=False),
    *_rules("favorite", rf"我最喜欢的(?P<what>[^，。是]{{1,10}})(?:现在)?是{_JIA}"),
    *_rules("likes", rf"{_WO}{_VERY}(?:喜欢|热爱|偏爱|钟爱|爱(?![人好])){_JIA}", single=False),
    *_rules("likes", rf"{_WO}{_VERY}(?:讨厌|厌恶|受不了){_JIA}", single=False, negated=True),
    *_rules("likes", rf"{_WO}不(?:太|怎么|是很|大)(?:喜欢|爱){_JIA}", single=False, negated=True),
    *_rules(
        "of_thing",
        rf"(?:(?P<of>[^，。；！？\s我]{{1,15}}?)的)?(?P<what>{_THING_ZH}){_IS_ZH}{_JIA}",
    ),
]

RULES: tuple[Rule, ...] = (*_ENGLISH, *_CHINESE)
