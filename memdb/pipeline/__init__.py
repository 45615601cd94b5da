"""From events to memories: five stages, each replaceable and usable alone.

stages     what the stages hand on, and the protocol of each
process    the stages one after the other over some events
rules, importance, merge, linking, recording     the stages without a model
model_*    their twins with one: model_facts, model_importance, model_merge, model_links;
           model_answer asks, model_ledger keeps the books
summaries  the running summaries of sessions and users
"""
