"""A `docker` that does as it is told: for the order of calls and for what fails. Real stacks: tests/containers."""

import json
import os
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SERVICES = ("gateway", "qwen3-tts", "step-audio-2")
CHECKS = [
    {"model": "a", "check": "first", "outcome": "passed", "figures": {"first_audio_seconds": 0.5}},
    {"model": "a", "check": "second", "outcome": "passed", "figures": {}},
]


def container(name, told):
    restarts = told["restarts"] if name == "step-audio-2" else 0
    health = {"Status": told["health"], "Log": [{"Output": "not ready: no first answer yet\n"}]}
    labels = {"com.docker.compose.service": name, "com.docker.compose.oneoff": "False"}
    return {
        "Id": name,
        "Created": "2026-01-01T00:00:00Z",
        "RestartCount": restarts,
        "State": {"Status": "running", "ExitCode": 0, "Health": health},
        "Config": {"Labels": labels, "Env": ["FIRSTWORD_API_KEYS=secret-key"]},
    }


def compose(words, told, state):
    verb = next(word for word in words if word in ("version", "config", "ps", "build", "up", "run", "down"))
    if verb == "version":
        print("2.26.1")
    elif verb == "config":
        model = told.get("model", "m-synthetic")
        services = {name: {"image": name, "command": [model], "build": {"target": "cpu"}} for name in SERVICES[1:]}
        print(json.dumps({"services": services | {"gateway": {"image": "gateway", "build": {"target": "gateway"}}}}))
    elif verb == "ps":
        print("\n".join(SERVICES if state.exists() else ()))
    elif verb == "up":
        state.touch()
    elif verb == "down":
        time.sleep(told.get("down_seconds", 0))
        state.unlink(missing_ok=True)
    elif verb == "run":
        out = Path(words[words.index("--volume") + 1].partition(":")[0])
        (out / "smoke.json").write_text(json.dumps({"results": CHECKS}))
        if told.get("run", 0):
            print("FAIL  a  first  0.1 s  silence")
    if told.get(verb) == "hangs":
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
        time.sleep(60)
    sys.exit(told.get(verb, 0))


def main(words):
    told = json.loads((HERE / "told.json").read_text())
    with (HERE / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    if words[0] == "compose":
        compose(words, told, HERE / "is-up")
    elif words[0] == "info":
        runtimes = {"runc": {}} | ({"nvidia": {}} if told.get("gpu") else {})
        print("/nonexistent" if "Root" in words[-1] else json.dumps({"ServerVersion": "26.1", "Runtimes": runtimes}))
    elif words[0] == "inspect":
        print(json.dumps([container(name, told) for name in words[1:]]))
    elif words[0] == "logs":
        print("loading\nfirstword serve: a stage died\n  mend: see above")
    elif words[0] == "events":
        print("42\n" * told["restarts"], end="")
    else:
        print("sha256:1")


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main(sys.argv[1:])
