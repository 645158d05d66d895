"""A container that lacks something ends with its cause, and is never told ready."""

import re
import time

import pytest
from rehearsing import rehearse
from stack import RECOGNITION, SPEECH, Stack
from test_up import script

from firstword.errors import Exit

BROKEN = "firstword-engine:broken"
SITE = "/opt/venv/lib/python3.12/site-packages"


@pytest.fixture(scope="module")
def without_a_package(docker, built):
    """An engine image from which what reads flow.yaml was taken; stock vLLM-Omni starts a while without it."""
    recipe = (
        f"FROM firstword-engine:cpu\nUSER 0\nRUN rm -r {SITE}/hyperpyyaml {SITE}/[Hh]yper[Pp]yyaml-*\nUSER 2000:0\n"
    )
    docker("build", "--tag", BROKEN, "-", input=recipe)
    yield BROKEN
    docker("image", "rm", "--force", BROKEN)


def test_a_missing_package_ends_up_with_its_cause(docker, without_a_package):
    stack = Stack(docker, "firstword-broken", FIRSTWORD_CPU_ENGINE_IMAGE=without_a_package)
    try:
        up = stack.compose("up", "--wait", "--no-build", "--no-deps", "step-audio-2", check=False, seconds=300)
        assert up.returncode != 0, "up --wait says that a broken stack is ready"
        told = stack.logs("step-audio-2")
        assert "hyperpyyaml" in told
        assert "is not installed" in told
        assert "mend: " in told
        assert "ready after" not in told
        assert set(stack.exit_codes("step-audio-2")) == {Exit.ENVIRONMENT}
    finally:
        stack.down()


def test_scripts_up_ends_with_the_cause_and_stops_what_it_started(docker, without_a_package, tmp_path):
    """Compose alone would go on: the container is started again and again."""
    stack = Stack(docker, "firstword-broken-up")
    settings = {"FIRSTWORD_CPU_ENGINE_IMAGE": without_a_package, "COMPOSE_PROJECT_NAME": stack.name}
    try:
        done = script(docker, tmp_path, "--docker", "--port", str(stack.port), **settings)
        assert done.returncode == Exit.ENVIRONMENT, done.stderr[-3000:]
        assert re.search(r"^firstword preflight: (.*\n)+.*hyperpyyaml(.*\n)+  mend: ", done.stderr, re.MULTILINE)
        assert re.search(r"the container [a-z0-9-]+ ended before it was ready", done.stderr)
        assert stack.compose("ps", "--all", "--quiet").stdout == ""
    finally:
        stack.down()


NEVER_READY = "exec sleep 3600"
# Each time later than `up --wait` looks for.
KEEPS_DYING = "sleep 12; echo 'firstword serve: a stage died'; echo '  mend: see above'; exit 42"


@pytest.fixture(params=[NEVER_READY, KEEPS_DYING], ids=["never ready", "keeps dying"])
def hopeless(docker, built, request):
    """An image whose engines never get ready, and how they do not."""
    name = "firstword-engine:hopeless"
    program = f"COPY --chmod=755 <<'END' /opt/venv/bin/serve-synthetic\n#!/bin/sh\n{request.param}\nEND\n"
    recipe = f"FROM firstword-engine:cpu\nUSER 0\n{program}USER 2000:0\n"
    docker("build", "--tag", name, "-", input=recipe)
    yield name, request.param
    docker("image", "rm", "--force", name)


def test_a_stack_that_never_gets_ready_ends_a_gpu_hosts_run_in_time(docker, hopeless, tmp_path):
    image, how = hopeless
    stack = Stack(docker, "firstword-hopeless")
    limit = 20 if how == NEVER_READY else 300
    options = ("--no-build", "--ready-timeout", str(limit))
    try:
        started = time.monotonic()
        code, said, report = rehearse(
            docker, stack, tmp_path / "report", *options, seconds=400, FIRSTWORD_CPU_ENGINE_IMAGE=image
        )
        took = time.monotonic() - started
        failure = report["failure"]
        assert (report["ok"], failure["step"], failure["code"]) == (False, "up", code)
        if how == NEVER_READY:
            assert code == Exit.NOT_READY, said
            assert re.search(r"not ready after 20 s; .*(qwen3-tts|step-audio-2) is starting \(.+\)", failure["cause"])
        else:
            assert code == Exit.STAGE_DIED, said
            assert "ended before it was ready (exit code 42)" in failure["cause"]
            assert "firstword serve: a stage died\n  mend: see above" in said
            assert "a stage died" in (tmp_path / "report/logs/qwen3-tts.log").read_text()
        # The limit, and what starting, keeping logs and taking down take on a busy machine.
        assert took < limit + 120
        assert stack.left() == []
    finally:
        stack.down()


@pytest.mark.parametrize(("model", "file"), [(SPEECH, "model.safetensors"), (RECOGNITION, "token2wav/flow.pt")])
def test_a_truncated_model_file_ends_it_with_its_cause(docker, built, model, file):
    path = f"$FIRSTWORD_HOME/checkpoints/{model}/{file}"
    steps = (
        f"firstword synthetic {model} $FIRSTWORD_HOME/checkpoints/{model}",
        f"truncate -s -4096 {path}",
        # Not serve-synthetic, which would make it anew.
        f"exec firstword serve {model} --shape={'cpu' if model == SPEECH else 'speech-cpu'}",
    )
    ended = docker(
        *("run", "--rm", "--shm-size", "1g", "--entrypoint", "sh", "firstword-engine:cpu", "-ec", "; ".join(steps)),
        check=False,
        seconds=300,
    )
    told = ended.stdout + ended.stderr
    assert ended.returncode in (Exit.CHECKPOINT_INCOMPLETE, Exit.CHECKSUM, Exit.PREFLIGHT), told[-3000:]
    assert file in told
    assert "mend: " in told
    assert "ready after" not in told
