"""From events to memories: five stages, each replaceable and usable alone.

stages      what the stages hand on, and the protocol of each
process     all five over some events of one session
rules       1 facts, without a model       (texts: sentences, words, dates, entities, attributes)
importance  2 importance                    merge    3 new, known, changed, in conflict
linking     4 entities and relations        recording  5 one transaction
model_*     the same stages with a model, its ledger, what it cannot talk into memory
summaries   running summaries               condense   long texts in short
redact      secrets taken out of texts before anything is stored
"""
