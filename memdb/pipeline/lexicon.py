"""Words the rules go by, English and Chinese: what says nothing, what moves, what binds.

Lists and patterns only; `memdb.pipeline.words` and the stages apply them.
"""

import re

__all__ = ["CUES", "EMOTION", "EMOTION_ZH", "FILLER_ZH", "NEGATION", "STOP_WORDS", "STOP_ZH"]


def _words(text: str) -> list[str]:
    return text.split()


# Function words, and what people say all day in conversation without telling anything.
STOP_WORDS = frozenset(
    _words("""
    a about above after again all almost already also always am an and another any anyone anything
    are as at away back be because been before being between both but by can can't cannot could did
    didn't do does doesn't doing don't done down each either else enough even ever every everyone
    everything far few for from get gets getting give go goes going gone gonna got had has have
    having he her here hers herself him himself his how however i if in into is isn't it its itself
    just keep kinda know let let's like little lot lots made make makes making many may maybe me
    might mine more most much must my myself never new no nobody none nor not nothing now of off
    often oh on once one ones only or other others our ours out over own per perhaps put quite
    really said same say saying see seem seems she should since so some someone something sometimes
    soon still stuff such sure take than that the their theirs them themselves then there these they
    thing things think this those though thought through till to together too tried try trying
    under until up upon us use very via want wanted wants was wasn't way we well went were weren't
    what whatever when where whether which while who whole whom whose why will with within without
    won't would wouldn't yeah yes yet you your yours yourself
    absolutely agree agreed amazing anytime appreciate awesome aww beautiful best better bet bye
    cheers cool congrats congratulations cute damn dear def definitely enjoy exactly excited
    exciting fabulous fantastic fine forward fun glad gonna good goodbye gosh gotta great ha haha
    happy hear heard hello hey hi hmm hope hopefully hoping idea impressive inspired inspiring
    interesting lmao lol look looking looks lovely love loved luck lucky mean means meant nice ok
    okay omg ooh perfect please pretty proud right sounds sorry special stay super sweet talk thank
    thanks thx totally true truly ugh understand wait wanna whoa wish wonderful wow yay yep yup
    i'm i've i'd i'll you're you've you'd you'll he's she's it's that's what's there's we're we've
    we'd we'll they're they've they'd they'll who's how's here's where's ain't
    """)
)

# Characters that carry no meaning of their own; a run of the others counts as words.
STOP_ZH = frozenset(
    "的了着吗呢吧啊么呀哦嗯哈呵嘿哎唉喔噢嘛啦是在和与及或而但也都就把被从向这那其之我你您他她它们"
    "个一不没有很太真能可要去来到给让跟还再又才只最更些"
)
FILLER_ZH = re.compile(
    "你好|您好|大家好|早上好|上午好|中午好|下午好|晚上好|早安|晚安|再见|拜拜|回头见|谢谢|多谢|感谢|不客气|"
    "没关系|没事|没问题|不好意思|对不起|抱歉|好的|好吧|好呀|好啊|行吧|可以的|当然|是的|对的|没错|嗯+|哈哈+|"
    "呵呵+|嘿嘿+|太好了|太棒了|真棒|真好|不错|厉害|加油|辛苦了|恭喜|祝贺|祝你|知道了|明白了?|收到|了解|原来如此|"
    "真的吗|是吗|怎么样|听起来|希望你|保重|慢走|随便"
)

EMOTION = frozenset(
    _words("""
    adore afraid amazed angry annoyed anxious ashamed awful bored broke cried cry crying delighted
    depressed depressing devastated disappointed disgusted dreadful embarrassed emotional excited
    exhausted fear frightened frustrated grateful grief guilty happiest happy hate hated heartbroken
    horrible hurt jealous joy lonely love loved mad miserable miss missed nervous overwhelmed
    overjoyed pain panic passionate proud regret relieved sad scared shocked sick stressed suffer
    surprised tears terrible terrified thankful thrilled tired unhappy upset worried worry worst
    died death divorce divorced funeral cancer accident married wedding pregnant born
    """)
)
EMOTION_ZH = re.compile(
    "爱|恨|讨厌|喜欢|开心|高兴|快乐|幸福|激动|兴奋|感动|骄傲|自豪|难过|伤心|悲伤|痛苦|痛|哭|泪|生气|愤怒|"
    "害怕|恐惧|担心|焦虑|紧张|压力|失望|后悔|孤独|寂寞|累|崩溃|惊讶|震惊|感激|想念|去世|离婚|结婚|怀孕|出生|"
    "车祸|癌"
)

# What a statement is for, by the words that give it away.
CUES = {
    "correction": re.compile(
        r"\bactually\b|\bcorrection\b|\bi meant\b|\bno longer\b|\bnot .{1,40} any ?more\b|"
        r"\binstead of\b|\bi was wrong\b|\bchanged to\b|\bscratch that\b|\bmy mistake\b|"
        r"其实|更正|纠正|改成|改为|改到|不再|已经不|说错了|记错了|应该是|而是",
        re.IGNORECASE,
    ),
    "decision": re.compile(
        r"\b(?:i|we|they|he|she)(?:'ve| have| has)? (?:just |finally |have )?"
        r"(?:decided|chose|chosen|agreed|settled on|picked|opted)\b|"
        r"\b(?:we|i)(?:'ll| will| are going to|'re going to) go with\b|\bdecision\b|"
        r"\bfinal choice\b|\blet's go with\b|"
        r"决定|选定|敲定|定下来|拍板|商定|说定|就选|选择了|选了|一致同意",
        re.IGNORECASE,
    ),
    "constraint": re.compile(
        r"\b(?:must(?: not|n't)?|have to|has to|need to|needs to|not allowed|mustn't|never|"
        r"at most|at least|no more than|no less than|only if|required|requirement|deadline|budget|"
        r"allergic|allergy|allergies|vegetarian|vegan|gluten|lactose|forbidden|limit(?:ed)? to|"
        r"can(?:not|'t|’t) (?:eat|drink|use|have|afford|take|travel|work|do))\b|"
        r"必须|不得|不能|不可以|禁止|务必|一定要|最多|最少|至少|不超过|不低于|限制|要求|截止|预算|过敏|素食|"
        r"忌口|只能|严禁",
        re.IGNORECASE,
    ),
    "preference": re.compile(
        r"\b\w+(?: really| absolutely| always| just|'d| would| do| don't| do not)*"
        r" (?:prefer|like|love|enjoy|hate|dislike|adore|can't stand|cannot stand)s?\b|"
        r"\bfavou?rite\b|\bfan of\b|\bnot a fan\b|\binto (?:\w+ing)\b|"
        r"喜欢|偏爱|更爱|最爱|讨厌|不爱|爱吃|爱喝|爱看|爱听|热爱|钟爱|爱好|偏好|习惯(?!了)",
        re.IGNORECASE,
    ),
    "plan": re.compile(
        r"\b(?:plan(?:ning|s)? (?:to|on)|going to|will|i'll|we'll|about to|"
        r"next (?:week|month|year)|tomorrow|schedul\w+|booked|appointment|looking forward to)\b|"
        r"打算|计划|准备|将要|明天|后天|下周|下个?月|明年|预约|预订|安排|即将",
        re.IGNORECASE,
    ),
}
NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|\w+n['’]t)\b|"
    r"[不没非无未别莫]",
    re.IGNORECASE,
)
