"""Settings: read from the environment, each mistake named, never open to others without a key."""

import pytest
import yaml

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.gateway import settings


@pytest.fixture
def load(monkeypatch):
    def load(**environment):
        for name, value in environment.items():
            monkeypatch.setenv(f"FIRSTWORD_{name}", value)
        return settings.load()

    return load


def test_the_defaults_are_what_scripts_up_starts(load):
    chosen = load()
    assert (chosen.host, chosen.port) == ("127.0.0.1", 8000)
    assert chosen.upstreams == ("http://127.0.0.1:8091", "http://127.0.0.1:8092")
    assert chosen.body_limit == 25 * 1024 * 1024
    chosen.require_safe()


def test_upstreams_are_a_list_of_addresses(load):
    chosen = load(UPSTREAMS="http://qwen3-tts:8091/, http://step-audio-2:8091/v1,", OPTIONAL_UPSTREAMS="http://a:1")
    assert chosen.upstreams == ("http://qwen3-tts:8091", "http://step-audio-2:8091")
    assert chosen.optional_upstreams == ("http://a:1",)


def test_empty_is_unset_as_compose_passes_it(load):
    assert load(PORT="", API_KEYS="", PUBLISH_ADDRESS="").port == 8000


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("UPSTREAMS", "qwen3-tts:8091", "FIRSTWORD_UPSTREAMS: qwen3-tts:8091 is not an address"),
        ("UPSTREAMS", "http://a:1/x", "only scheme, host and port"),
        ("UPSTREAMS", "http://u:p@a:1", "only scheme, host and port"),
        ("UPSTREAMS", "http://a:1,http://a:1/", "named twice: http://a:1"),
        ("UPSTREAMS", ",", "no required upstream"),
        ("PORT", "eighty", "FIRSTWORD_PORT: "),
        ("READY_INTERVAL", "0", "FIRSTWORD_READY_INTERVAL: "),
        ("BODY_LIMIT", "-1", "FIRSTWORD_BODY_LIMIT: "),
        ("REFERENCE_HOSTS", "https://a.example", "FIRSTWORD_REFERENCE_HOSTS: https://a.example is not a host"),
        ("REFERENCE_HOSTS", "*.a.example", "is not a host"),
        ("REFERENCE_HOSTS", "u@a.example", "is not a host"),
    ],
)
def test_a_mistake_is_named_by_its_variable(load, name, value, cause):
    with pytest.raises(FirstwordError) as caught:
        load(**{name: value})
    assert cause in caught.value.cause
    assert caught.value.code == Exit.CONFIG


def test_keys_come_from_both_places(load, tmp_path):
    file = tmp_path / "keys"
    file.write_text("# for the web page\nsk-three\n\nsk-four\n")
    chosen = load(API_KEYS="sk-one, sk-two", API_KEYS_FILE=str(file))
    assert chosen.keys() == (b"sk-one", b"sk-two", b"sk-three", b"sk-four")
    assert "sk-one" not in repr(chosen)


@pytest.mark.parametrize("text", ["", "# none\n", "a key\n", "schlüssel\n"])
def test_a_key_file_without_good_keys_is_refused(load, tmp_path, text):
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(FirstwordError) as caught:
        load(API_KEYS_FILE=str(file)).keys()
    assert "schl" not in str(caught.value)


def test_a_missing_key_file_is_refused(load, tmp_path):
    with pytest.raises(FirstwordError, match="FIRSTWORD_API_KEYS_FILE"):
        load(API_KEYS_FILE=str(tmp_path / "none")).require_safe()


@pytest.mark.parametrize(
    ("environment", "safe"),
    [
        ({}, True),
        ({"HOST": "localhost"}, True),
        ({"HOST": "::1"}, True),
        ({"HOST": "0.0.0.0"}, False),
        ({"HOST": "::"}, False),
        ({"HOST": "192.168.1.5"}, False),
        ({"HOST": "gateway.example"}, False),
        ({"HOST": "0.0.0.0", "API_KEYS": "sk-one"}, True),
        ({"HOST": "0.0.0.0", "PUBLISH_ADDRESS": "127.0.0.1"}, True),
        ({"HOST": "0.0.0.0", "PUBLISH_ADDRESS": "0.0.0.0"}, False),
        ({"HOST": "127.0.0.1", "PUBLISH_ADDRESS": "203.0.113.9"}, False),
    ],
)
def test_no_key_no_others(load, environment, safe):
    chosen = load(**environment)
    if safe:
        chosen.require_safe()
        return
    with pytest.raises(FirstwordError, match="without a key") as caught:
        chosen.require_safe()
    assert "FIRSTWORD_API_KEYS" in caught.value.mend


@pytest.mark.parametrize(
    ("published", "keys", "safe"),
    [
        ("", "", True),
        ("::1", "", True),
        ("192.0.2.1", "", False),
        ("0.0.0.0", "", False),
        ("192.0.2.1", "sk-one", True),
    ],
)
def test_no_key_no_others_in_containers_either(load, published, keys, safe):
    """The gateway's container listens everywhere; compose tells it the address that its port is published on."""
    root = paths.root()
    gateway = yaml.safe_load((root / "compose.yaml").read_text())["services"]["gateway"]
    address = gateway["environment"]["FIRSTWORD_PUBLISH_ADDRESS"]
    assert gateway["ports"] == [f"{address}:${{FIRSTWORD_PORT:-8000}}:8000"]
    assert address == "${FIRSTWORD_PUBLISH_ADDRESS:-127.0.0.1}"
    assert "FIRSTWORD_HOST=0.0.0.0" in (root / "docker/gateway.Dockerfile").read_text()
    chosen = load(HOST="0.0.0.0", PUBLISH_ADDRESS=published or "127.0.0.1", API_KEYS=keys)
    if safe:
        chosen.require_safe()
        return
    with pytest.raises(FirstwordError, match="without a key"):
        chosen.require_safe()


def test_a_misspelt_setting_is_warned_about():
    lines = list(settings.unknown({"FIRSTWORD_API_KEY": "sk-secret", "FIRSTWORD_HOME": "/x", "FIRSTWORD_PORT": "1"}))
    assert lines == ["FIRSTWORD_API_KEY is no setting of the gateway; did you mean FIRSTWORD_API_KEYS?"]


def test_the_help_lists_every_setting():
    from firstword.gateway import command

    for name in settings.Settings.model_fields:
        assert f"FIRSTWORD_{name.upper()}" in command.__doc__


def test_compose_passes_the_limits_and_its_example_tells_their_defaults():
    root = paths.root()
    lines = (root / ".env.example").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines if line.startswith("FIRSTWORD_"))
    compose = (root / "compose.yaml").read_text()
    limits = ("limit", "timeout", "deadline", "memory", "characters", "concurrency", "queue", "pieces", "decoders")
    limits += ("sessions", "idle")
    own = ("ready_timeout", "stop_timeout")  # the container's own health and stop period set these
    names = [name for name in settings.Settings.model_fields if name.rpartition("_")[2] in limits and name not in own]
    assert len(names) == 19
    for name in names:
        variable, default = f"FIRSTWORD_{name.upper()}", settings.Settings.model_fields[name].default
        assert float(told[variable]) == default
        assert f"      {variable}: ${{{variable}:-{told[variable]}}}\n" in compose
