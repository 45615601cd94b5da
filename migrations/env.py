"""What alembic runs: lock, revisions, every function file, stamp, in one transaction.

Two modes share the one order: online the steps are executed, offline (`memdb migrate
--sql`) they are printed. The steps themselves are in memdb/migrate.py.
"""

from typing import cast

from alembic import context

from memdb import migrate

options = context.config.attributes

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", version_table_schema="memdb")
    with context.begin_transaction():
        migrate.print_steps(
            context.static_output,
            cast("str | None", context.get_starting_revision_argument()),
            options.get("vector_schema", "public"),
            context.run_migrations,
        )
else:
    dsn = options.get("dsn") or context.get_x_argument(as_dictionary=True)["dsn"]
    with migrate.connect(dsn) as connection, connection.begin():
        # The lock comes before alembic reads its version, so it never acts on an old one.
        migrate.take_lock(connection)
        context.configure(connection=connection, version_table_schema="memdb")
        migrate.run_steps(connection, options, context.run_migrations)
