# labelwatch with its models and its encoder for training. `docker build -t labelwatch .`, then `docker run --read-only -p 8765:8765 labelwatch`.
# Everything it installs is pinned with hashes; the steps are those of deploy/install, which a test runs as they stand here.
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
WORKDIR /src
# The packages change rarely, the code often: so the larger layer is made first.
COPY deploy/install deploy/install
COPY deploy/requirements/serving.txt deploy/requirements/build.txt deploy/requirements/
RUN deploy/install dependencies /opt/labelwatch
COPY pyproject.toml README.md LICENSE ./
COPY service service
COPY models/default models/default
COPY models/light models/light
COPY models/encoder models/encoder
RUN deploy/install service /opt/labelwatch && mkdir -p /data/models

FROM python:${PYTHON_VERSION}-slim-bookworm
COPY --from=build /opt/labelwatch /opt/labelwatch
# Only this folder is written to: the embedded log, the review queue's file and trained models.
COPY --from=build --chown=10001:10001 /data /data
# No secret: API_KEYLESS says what to do without keys.
# hadolint ignore=DL3064
ENV PATH=/opt/labelwatch/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    LABELWATCH_API_HOST=0.0.0.0 \
    LABELWATCH_API_KEYLESS=generate \
    LABELWATCH_API_PORT=8765 \
    LABELWATCH_API_QUEUE_PATH=/data/queue.sqlite \
    LABELWATCH_LOG_PATH=/data/log.sqlite \
    LABELWATCH_MODELS_PATH=/data/models \
    LABELWATCH_WORKER_METRICS_HOST=0.0.0.0 \
    LABELWATCH_WORKER_METRICS_PORT=8765 \
    LABELWATCH_TRAINER_METRICS_HOST=0.0.0.0 \
    LABELWATCH_TRAINER_METRICS_PORT=8765 \
    LABELWATCH_LOGS_FORMAT=json
WORKDIR /data
VOLUME /data
# A number, so that Kubernetes can see that it isn't root.
USER 10001:10001
EXPOSE 8765
STOPSIGNAL SIGTERM
# The own port of a worker or trainer is the API's, so that one check serves all.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['LABELWATCH_API_PORT']}/healthz\", timeout=4)"]
ENTRYPOINT ["labelwatch"]
CMD ["up"]
