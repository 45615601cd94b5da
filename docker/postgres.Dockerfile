# PostgreSQL 18 with pgvector, which memdb needs, and AGE and pg_cron, which it can use.
#
#   docker build -f docker/postgres.Dockerfile -t memdb-postgres:18 docker

FROM postgres:18

COPY postgres/install.sh /usr/local/share/memdb/install.sh
RUN sh /usr/local/share/memdb/install.sh

COPY --chmod=755 postgres/initdb/ /docker-entrypoint-initdb.d/

USER postgres

# pg_cron is loaded with the server. As background workers its jobs need no connection, hence no
# password; it sleeps until the init scripts have made its database. Pages in no order cost little
# more than pages in order on anything but a spinning disk.
CMD ["postgres", \
     "-c", "shared_preload_libraries=pg_cron", \
     "-c", "cron.database_name=memdb", \
     "-c", "cron.use_background_workers=on", \
     "-c", "max_worker_processes=16", \
     "-c", "random_page_cost=1.1"]
