# The image of every worker: `trustgraph-prompt` is its entry point, so arguments are those of the command.
#   docker build --tag trustgraph-prompt .
# docs/how-to/image.md explains arguments, secrets and how to run it.
ARG PYTHON=docker.io/library/python:3.13-slim

FROM ${PYTHON} AS dependencies
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements requirements
# The secrets are optional: a pip.conf for an index of one's own, and a certificate authority that it may name.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    python -m venv /tools \
    && /tools/bin/pip install --only-binary :all: --require-hashes --requirement requirements/build.txt \
    && /tools/bin/pip install --only-binary :all: --require-hashes --requirement requirements/sbom.txt \
    && /tools/bin/pip download --only-binary :all: --require-hashes --requirement requirements/worker.txt \
        --dest /wheels
COPY pyproject.toml ./
ARG EXTRAS="redis tracing"
# All that is installed has been locked, so pip can only choose which of it the extras need. Nobody imports what is
# taken out (rich highlights Python at most), and nothing is compiled again at a start: the root of a container may be
# read-only.
RUN python -m venv --without-pip /opt/trustgraph-prompt \
    && python requirements/extras.py ${EXTRAS} > wanted.txt \
    && /tools/bin/pip --python /opt/trustgraph-prompt/bin/python install --no-compile \
        --no-index --find-links /wheels --requirement wanted.txt \
    && find /opt/trustgraph-prompt/lib -path '*/pygments/lexers/*.py' \
        ! -name __init__.py ! -name _mapping.py ! -name python.py ! -name special.py -delete \
    && find /opt/trustgraph-prompt/lib -path '*/pygments/styles/*.py' \
        ! -name __init__.py ! -name _mapping.py ! -name default.py ! -name monokai.py -delete \
    && find /opt/trustgraph-prompt/lib -path '*/pygments/formatters/*.py' \
        ! -name __init__.py ! -name _mapping.py -delete \
    && find /opt/trustgraph-prompt/lib -depth \( -name tests -o -name testdata -o -name benchmarks \
        -o -name '*.proto' -o -name '*.py[ix]' -o -name '*.px[di]' -o -name '*.[ch]' \) -exec rm -r {} + \
    && /opt/trustgraph-prompt/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x /pygments/ /opt/trustgraph-prompt/lib

FROM dependencies AS package
COPY README.md LICENSE ./
COPY trustgraph_prompt trustgraph_prompt
COPY templates templates
COPY flows flows
RUN /tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /tools/bin/pip --python /opt/trustgraph-prompt/bin/python install --no-compile --no-deps \
        --no-index --root /package /wheels/trustgraph_prompt-*.whl \
    && python -m compileall -q --invalidation-mode unchecked-hash -s /package /package \
    && cp -r /package/opt / \
    && /tools/bin/cyclonedx-py environment --output-reproducible \
        --output-file /package/opt/trustgraph-prompt/sbom.cdx.json /opt/trustgraph-prompt/bin/python

FROM ${PYTHON}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trustgraph-prompt" \
    org.opencontainers.image.description="The prompt worker of a knowledge-graph ingestion flow" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/trustgraph-prompt/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Two layers: what changes with a lock file, and what changes with every release
COPY --from=dependencies /opt/trustgraph-prompt /opt/trustgraph-prompt
COPY --from=package /package /
WORKDIR /tmp
USER 10001:10001
ENTRYPOINT ["trustgraph-prompt"]
CMD ["run", "--http", ":8080"]
