"""Long-term memory for AI agents inside PostgreSQL."""

__all__: list[str] = []
