# The image of every worker: `trustgraph-prompt` is its entry point, so arguments are those of the command.
#   docker build --tag trustgraph-prompt .
ARG PYTHON=docker.io/library/python:3.13-slim

FROM ${PYTHON} AS build
# worker.txt has all that a worker can need: the caches in Redis, and traces
ARG REQUIREMENTS=worker
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements requirements
RUN python -m venv /tools \
    && /tools/bin/pip install --require-hashes --requirement requirements/build.txt \
    && /tools/bin/pip install --require-hashes --requirement requirements/sbom.txt \
    && python -m venv --without-pip /opt/trustgraph-prompt \
    && /tools/bin/pip --python /opt/trustgraph-prompt/bin/python install \
        --only-binary :all: --require-hashes --requirement "requirements/${REQUIREMENTS}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY trustgraph_prompt trustgraph_prompt
COPY templates templates
COPY flows flows
RUN /tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /tools/bin/pip --python /opt/trustgraph-prompt/bin/python install --no-deps /wheels/*.whl \
    && /tools/bin/cyclonedx-py environment --output-reproducible --output-file /opt/trustgraph-prompt/sbom.cdx.json \
        /opt/trustgraph-prompt/bin/python

FROM ${PYTHON}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trustgraph-prompt" \
    org.opencontainers.image.description="The prompt worker of a knowledge-graph ingestion flow" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/trustgraph-prompt /opt/trustgraph-prompt
ENV PATH=/opt/trustgraph-prompt/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /tmp
USER 10001:10001
ENTRYPOINT ["trustgraph-prompt"]
CMD ["run", "--http", "0.0.0.0:8080"]
