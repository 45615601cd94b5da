"""One name for one attribute, whoever names it: the rules, or a model in words of its own.

Rules say `residence`; a model says "lives in", "current city" or 居住地. Facts conflict or replace
each other only under one name. Only words that mean the same of any subject are joined: an address
is no city, and a former employer is none.
"""

import re
import unicodedata

__all__ = ["attribute_name"]

_WORDS: dict[str, str] = {
    "residence": "lives in|live in|living in|lives at|resides in|residing in|based in|is based in|"
    "moved to|relocated to|settled in|home city|city|city of residence|place of residence|"
    "residence city|residence place|country of residence|lives|"
    "居住地|住在|居住在|居住|定居|定居在|定居于|现居|现居地|常住地|居住城市|所在城市|搬到|搬家到|搬去",
    "employer": "works at|work at|works for|work for|working at|working for|employed by|"
    "employed at|is employed by|employer name|company|workplace|place of work|job at|"
    "雇主|公司|工作单位|单位|就职于|任职于|供职于|就职公司|所在公司|任职公司|入职",
    "occupation": "job|job title|job role|profession|works as|work as|working as|career|"
    "职业|工作|职位|职务|岗位|从事|从事职业",
    "name": "full name|real name|is called|called|named|is named|姓名|名字|全名|本名|叫|名叫|叫做",
    "age": "years old|aged|is aged|年龄|年纪|岁数",
    "birthday": "birth date|birthdate|date of birth|born on|dob|birth day|生日|出生日期|出生于哪天",
    "phone": "phone number|mobile|mobile number|mobile phone|cell|cell phone|cell number|"
    "telephone|telephone number|contact number|电话|手机|手机号|手机号码|电话号码|联系电话",
    "email": "e mail|email address|e mail address|mail address|"
    "邮箱|邮箱地址|电子邮件|电子邮箱|电子邮件地址|邮件地址",
    "origin": "from|comes from|is from|originally from|hometown|home town|birthplace|birth place|"
    "place of birth|born in|place of origin|家乡|老家|故乡|籍贯|出生地|来自",
    "spouse_name": "spouse|wife|husband|married to|is married to|wife name|husband name|"
    "妻子|丈夫|老婆|老公|配偶|太太|爱人|妻子姓名|丈夫姓名",
    "allergy": "allergies|allergic to|is allergic to|food allergy|allergen|"
    "过敏|过敏原|过敏源|对什么过敏",
    "diet": "dietary preference|dietary restriction|dietary habit|eating habit|"
    "饮食|饮食习惯|饮食偏好",
    "likes": "like|loves|love|enjoys|enjoy|prefers|prefer|preference|is fond of|fond of|is into|"
    "fan of|is a fan of|hobby|hobbies|interest|interests|interested in|is interested in|"
    "喜欢|喜爱|热爱|偏爱|爱好|兴趣|兴趣爱好|偏好|爱",
    "deadline": "due date|due|due by|is due|截止日期|截止时间|截止|期限",
    "delivery_date": "delivery|delivered on|交货日期|交货期|交付日期",
    "release_date": "released on|released|发布日期|发布时间",
    "launch_date": "launched on|launches on|launch|上线日期|上线时间",
    "budget": "预算",
    "price": "cost|costs|价格|售价",
    "owner": "person in charge|负责人",
    "venue": "场地|会场",
    "version": "version number|版本|版本号",
}
_DENIALS: dict[str, str] = {
    "likes": "dislikes|dislike|hates|hate|detests|detest|can t stand|cannot stand|讨厌|厌恶|受不了",
}
_SPELLING = {"favourite": "favorite", "colour": "color"}

_NOT = re.compile(
    r"^(?:(?:is|are|does|do|has|was) )?(?:not|no longer|never|any more)(?: longer)? |"
    r"^(?:doesn|don|isn|hasn) t |^(?:已经?)?(?:不再|没有?再|不)"
)
# Words that leave an attribute what it is.
_AROUND = re.compile(
    r"^(?:(?:has|have|is|are|the|a|an|my|his|her|their|user|s|now|new|current|currently|present|"
    r"primary|main) )+|(?: (?:is|now|currently))+$|"
    r"^(?:他的?|她的?|我的?|用户的?)?(?:现在的?|目前的?|当前的?|如今的?|最新的?|新的?)?|(?:是|为)$"
)
_FAVORITE = re.compile(r"^favorite (?P<en>.+)$|^最(?:喜欢|喜爱|爱)的(?P<zh>.+)$")
_LONGEST = 63


def _names(table: dict[str, str]) -> dict[str, str]:
    return {word: name for name, words in table.items() for word in words.split("|")}


_NAMES = {**{name.replace("_", " "): name for name in _WORDS}, **_names(_WORDS)}
_DENIED = _names(_DENIALS)


def attribute_name(text: str) -> tuple[str, bool]:
    """Return the name of an attribute, and whether the words deny it ("dislikes", 不喜欢).

    Args:
        text: what a model or a person calls it, in English or Chinese.

    Returns: a snake_case word of at most 63 ASCII characters, or "" where nothing is left. What is
    not known keeps its own words; where they are not ASCII, their code.
    """
    words = _plain(text)
    for spoken in (words, _AROUND.sub("", words)):
        if found := _known(spoken):
            return found
    bare = _AROUND.sub("", _NOT.sub("", _AROUND.sub("", words)))
    if _NOT.search(words) or _NOT.search(_AROUND.sub("", words)):
        found = _known(bare)
        if found:
            return found[0], not found[1]
    return _coded(_AROUND.sub("", words) or words), False


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).lower()
    spaced = re.sub(r"[\W_]+", " ", folded).strip()
    return " ".join(_SPELLING.get(word, word) for word in spaced.split())


def _known(words: str) -> tuple[str, bool] | None:
    if words in _NAMES:
        return _NAMES[words], False
    if words in _DENIED:
        return _DENIED[words], True
    if match := _FAVORITE.match(words):
        return f"favorite_{_coded(match['en'] or match['zh'])}"[:_LONGEST], False
    return None


def _coded(words: str) -> str:
    """Return words as a snake_case name; those of other scripts are spelt by their code."""
    if not words.isascii():
        return ("x" + words.replace(" ", "").encode().hex())[:_LONGEST]
    name = words.replace(" ", "_")
    return (name if not name or name[0].isalpha() else f"x{name}")[:_LONGEST]
