"""The compose files: valid in every combination, and every setting told in .env.example."""

import json
import re
from itertools import product

import pytest
from stack import CPU, OFFLINE, Stack

from firstword import paths

COMBINATIONS = {
    "gpu": ("compose.yaml",),
    "gpu offline": ("compose.yaml", "compose.offline.yaml"),
    "cpu": CPU,
    "cpu offline": OFFLINE,
}
PROFILES = ((), ("voice-design",), ("voice-clone",), ("voice-design", "voice-clone"))
EXTRA = {"voice-design": "qwen3-tts-voice-design", "voice-clone": "qwen3-tts-voice-clone"}
# ${NAME}, ${NAME:-default}; ${NAME:+word} is for what is empty by default.
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\+[^}]*)?\}")


def resolved(docker, files, *profiles, **settings):
    words = [word for profile in profiles for word in ("--profile", profile)]
    return json.loads(
        Stack(docker, "firstword", files, **settings).compose(*words, "config", "--format", "json").stdout
    )


@pytest.mark.parametrize(("name", "profiles"), list(product(COMBINATIONS, PROFILES)))
def test_a_combination_is_valid_and_holds_what_it_should(docker, name, profiles):
    config = resolved(docker, COMBINATIONS[name], *profiles)
    assert set(config["services"]) == {"gateway", "qwen3-tts", "step-audio-2", *(EXTRA[p] for p in profiles)}
    for service, settings in config["services"].items():
        assert settings["read_only"] is True
        assert settings["cap_drop"] == ["ALL"]
        assert settings["security_opt"] == ["no-new-privileges:true"]
        assert settings["restart"] == "unless-stopped"
        assert settings["stop_grace_period"]
        assert settings["logging"]["options"]["max-size"]
        assert settings["pids_limit"]
        if service == "gateway":
            continue
        assert "ports" not in settings
        gpus = settings.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
        assert bool(gpus) == name.startswith("gpu")
        assert settings["build"]["target"] == ("cuda" if name.startswith("gpu") else "cpu")
        assert set(settings["networks"]) == {"engines"}
        assert settings["environment"]["HF_HUB_OFFLINE"] == ("1" if name.endswith("offline") else "0")
    assert bool(config["networks"]["engines"].get("internal")) == name.endswith("offline")
    assert set(config["services"]["gateway"]["networks"]) == {"edge", "engines"}
    assert [port["host_ip"] for port in config["services"]["gateway"]["ports"]] == ["127.0.0.1"]


def test_shapes_gpus_and_the_address_are_settings(docker):
    config = resolved(
        docker,
        COMBINATIONS["gpu"],
        STEP_AUDIO_2_SHAPE="asr-1x24g",
        QWEN3_TTS_GPU="1,2",
        FIRSTWORD_PUBLISH_ADDRESS="192.0.2.1",
    )
    assert "--shape=asr-1x24g" in config["services"]["step-audio-2"]["command"]
    (gpus,) = config["services"]["qwen3-tts"]["deploy"]["resources"]["reservations"]["devices"]
    assert gpus["device_ids"] == ["1,2"]
    gateway = config["services"]["gateway"]
    assert gateway["ports"][0]["host_ip"] == "192.0.2.1"
    # The gateway knows where it is reached, and refuses to start there without a key.
    assert gateway["environment"]["FIRSTWORD_PUBLISH_ADDRESS"] == "192.0.2.1"


def test_keys_come_from_a_file_where_one_is_named(docker, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sk-of-a-file\n")
    named, none = (resolved(docker, CPU, FIRSTWORD_API_KEYS_FILE=file) for file in (str(keys), ""))
    assert named["secrets"]["api_keys"]["file"] == str(keys)
    assert named["services"]["gateway"]["environment"]["FIRSTWORD_API_KEYS_FILE"] == "/run/secrets/api_keys"
    assert named["services"]["gateway"]["secrets"] == [{"source": "api_keys", "target": "/run/secrets/api_keys"}]
    assert "sk-of-a-file" not in json.dumps(named)
    assert none["services"]["gateway"]["environment"]["FIRSTWORD_API_KEYS_FILE"] == ""


def test_the_example_holds_every_setting_with_its_default():
    example = dict(
        line.split("=", 1)
        for line in (paths.root() / ".env.example").read_text().splitlines()
        if line and not line.startswith("#")
    )
    used: dict[str, str] = {}
    for name, default in VARIABLE.findall((paths.root() / "compose.yaml").read_text()):
        used.setdefault(name, default)
    told_elsewhere = dict(VARIABLE.findall((paths.root() / "compose.cpu.yaml").read_text()))
    assert example == {**{k: v for k, v in told_elsewhere.items() if k not in used}, **used}
