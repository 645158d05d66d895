# The gateway: no torch, no vLLM. Its target smoke tries a stack that runs: the acceptance suite and OpenAI's client.
#
#   docker build -f docker/gateway.Dockerfile --target gateway -t firstword-gateway .
#
# Behind a proxy that inspects TLS: --secret id=ca_bundle,src=FILE. Each step seals its layer (seal_layer.py): built again
# with the same SOURCE_DATE_EPOCH, from the same base image and Debian packages, the image is the same bytes.

ARG BASE_IMAGE=python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254

FROM ${BASE_IMAGE} AS base
SHELL ["/bin/sh", "-eu", "-c"]


# The installer never gets into an image.
FROM base AS installer
RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/uv.txt,target=/uv.txt \
    --mount=type=cache,target=/root/.cache/pip \
    /build/with-ca-bundle python -m pip install --quiet --root-user-action=ignore --disable-pip-version-check \
      --no-deps --require-hashes --target /installer --requirement /uv.txt


# What is in an image, from its lock alone.
FROM installer AS sbom
RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/sbom.txt,target=/sbom.txt \
    --mount=type=cache,target=/root/.cache/uv \
    /build/with-ca-bundle /installer/bin/uv pip install --quiet --python /usr/local/bin/python3.12 --link-mode copy \
      --no-deps --require-hashes --target /sbom --requirement /sbom.txt
RUN --mount=type=bind,source=docker/sbom,target=/build \
    --mount=type=bind,source=docker/requirements,target=/locks \
    --mount=type=bind,source=pyproject.toml,target=/pyproject.toml \
    mkdir /sboms \
    && PYTHONPATH=/sbom /build/write-sboms /pyproject.toml /sboms /locks/gateway.txt /locks/smoke.txt


FROM base AS gateway
# tini: an init of its own, as in the engine's image. Its version is that of the base image's Debian release.
# hadolint ignore=DL3008
RUN --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=tmpfs,target=/var/lib/apt/lists \
    --mount=type=tmpfs,target=/var/cache/apt \
    --mount=type=tmpfs,target=/var/cache/ldconfig \
    --mount=type=tmpfs,target=/var/log \
    begun="$(date +%s)" \
    && apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && python -B /build/compile_bytecode.py /usr/local/lib/python3.12 \
    && mkdir -p /run/firstword /var/lib/firstword/voices \
    && chown 2000:0 /run/firstword /var/lib/firstword/voices \
    && chmod g+rwX /run/firstword /var/lib/firstword/voices \
    && python -B /build/seal_layer.py "$begun"

ENV PATH=/opt/venv/bin:$PATH \
    FIRSTWORD_ROOT=/opt/firstword \
    FIRSTWORD_RUN_DIR=/run/firstword \
    FIRSTWORD_VOICES_DIR=/var/lib/firstword/voices \
    FIRSTWORD_HOST=0.0.0.0 \
    FIRSTWORD_PORT=8000

# Ready is: every required engine is. The check reads what the gateway knows already, in milliseconds; what it does not
# like stands in `docker inspect`. The gateway itself starts in a second, but engines may need an hour, see
# engine.Dockerfile, and until then no failure counts.
HEALTHCHECK --start-period=60m --start-interval=2s --interval=10s --timeout=5s --retries=3 CMD ["gateway-ready"]
EXPOSE 8000
ENTRYPOINT ["tini", "--", "firstword", "gateway"]

RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/gateway.txt,target=/locks/gateway.txt \
    --mount=type=bind,source=docker/requirements/build.txt,target=/locks/build.txt \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=tmpfs,target=/tmp \
    begun="$(date +%s)" \
    && python -m venv --without-pip /opt/venv \
    && /build/install --requirement /locks/gateway.txt \
    # 17 MB of NumPy's own tests, which nothing imports; docs/containers.md has what else there is and why it stays.
    && find /opt/venv/lib/python3.12/site-packages/numpy -type d -name tests -prune -exec rm -r {} + \
    && python -B /build/seal_layer.py "$begun"
RUN --mount=type=bind,target=/src \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,from=sbom,source=/sboms,target=/sboms \
    /src/docker/finish/add-gateway
ARG BASE_IMAGE REVISION= SOURCE_DATE_EPOCH= LABEL_VERSION=
LABEL org.opencontainers.image.title="firstword gateway" \
      org.opencontainers.image.description="One OpenAI-compatible address for Step-Audio-2-mini and Qwen3-TTS" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="$BASE_IMAGE" \
      org.opencontainers.image.version="$LABEL_VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      firstword.source-date-epoch="$SOURCE_DATE_EPOCH"
USER 2000:0


FROM gateway AS smoke
USER 0:0
RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/smoke.txt,target=/locks/smoke.txt \
    --mount=type=bind,source=docker/requirements/build.txt,target=/locks/build.txt \
    --mount=type=bind,from=sbom,source=/sboms,target=/sboms \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=tmpfs,target=/tmp \
    begun="$(date +%s)" \
    && /build/install --requirement /locks/smoke.txt \
    && cp /sboms/smoke.cdx.json /opt/firstword/sbom.cdx.json \
    && python -B /build/seal_layer.py "$begun"
HEALTHCHECK NONE
ENTRYPOINT ["tini", "--", "firstword", "smoke"]
CMD ["http://gateway:8000"]
LABEL org.opencontainers.image.title="firstword smoke" \
      org.opencontainers.image.description="Tries a stack that runs: firstword's acceptance suite and OpenAI's client"
USER 2000:0
