"""An engine that breaks: its container says so, ends with its cause, comes back, and the stack is whole again."""

from stack import RECOGNITION, SPEECH, until
from test_stack import smoke

# What docs/troubleshooting.md promises of a frozen engine, with room for a busy machine.
UNHEALTHY_SECONDS, ENDED_SECONDS = 90, 240


def test_a_killed_stage_ends_the_container_which_comes_back(breaking, stack, figures):
    watch = breaking.killed
    until(lambda: "healthy" in watch.seconds, 600, "it is healthy again")
    told = stack.logs("qwen3-tts", tail=1500)
    assert "firstword serve: " in told
    assert "mend: " in told
    assert told.rindex("ready after") > told.index("  mend: ")
    figures["a stage killed to restarted, to healthy, s"] = (watch.seconds["restarted"], watch.seconds["healthy"])


def test_a_frozen_engine_is_unhealthy_with_its_cause(breaking, figures):
    watch = breaking.frozen
    until(lambda: "unhealthy" in watch.seconds, UNHEALTHY_SECONDS, "it is unhealthy")
    assert watch.seconds["unhealthy"] <= UNHEALTHY_SECONDS
    assert "answer to /health within 5 s" in watch.cause, watch.cause
    assert watch.seconds["unhealthy"] < watch.seconds.get("restarted", ENDED_SECONDS)
    figures["an engine frozen to unhealthy, s"] = watch.seconds["unhealthy"]


def test_a_frozen_engine_is_ended_and_comes_back(breaking, stack, figures):
    watch = breaking.frozen
    until(lambda: "restarted" in watch.seconds, ENDED_SECONDS, "it is ended")
    assert watch.seconds["restarted"] <= ENDED_SECONDS
    until(lambda: "healthy" in watch.seconds, 600, "it is healthy again")
    told = stack.logs("step-audio-2", tail=1500)
    assert told.rindex("ready after") > told.index("firstword serve: the engine stopped answering: ")
    figures["an engine frozen to restarted, to healthy, s"] = (watch.seconds["restarted"], watch.seconds["healthy"])


def test_the_gateway_has_told_and_the_stack_is_whole_again(breaking, stack, figures):
    assert breaking.told
    until(lambda: stack.status("/ready") == 200, 60, "the gateway is ready again")
    # Docker looks every ten seconds, and nothing that depends on an unhealthy gateway is started.
    until(lambda: stack.inspect("gateway")["State"]["Health"]["Status"] == "healthy", 60, "Docker has seen it")
    # Both engines are new: one request of each kind, not the whole suite once more.
    told = smoke(stack, figures, "after the breakages, by OpenAI's client", "--check", "client")
    assert {SPEECH, RECOGNITION} <= set(told.split())
