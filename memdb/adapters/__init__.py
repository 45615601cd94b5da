"""memdb behind the interfaces of agent frameworks, one file each.

Nothing here is imported by memdb itself: `pip install 'memdb-postgres[langgraph]'` and so on, then

    from memdb.adapters.langgraph import MemdbStore

    langgraph         a BaseStore: keys and values, filters, time to live, semantic search
    langchain         a retriever, a vector store, a chat history, a middleware for agents
    llama_index       a memory block and a retriever
    openai_agents     a session, and memory as tools
    autogen           a Memory
    agent_framework   a context provider and a history provider
    dify              the external knowledge route, an APIRouter
    files             path-addressed files; anthropic: the memory tool over them
    tools             memory as plain functions, for whatever calls tools

Each takes a Memory or an AsyncMemory of yours, shares its pool, and never blocks an event loop:
with a Memory the work of asynchronous methods is done on a thread. What is written is an event
and a memory that rests on it; what is deleted is retracted, and a write under a known name is a
new version, so that `why`, `history` and `correct` work on everything a framework stores.
"""
