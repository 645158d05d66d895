"""The catalogue: agrees with the model locks, and every mistake in it is named."""

import pytest
import yaml

from firstword import paths
from firstword.acceptance import kinds
from firstword.engine.models import catalog as engine_catalogue
from firstword.errors import Exit, FirstwordError
from firstword.gateway import catalogue
from firstword.synthetic.qwen3_tts import layout

CUSTOM_VOICE = "qwen3-tts-1.7b-customvoice"


@pytest.fixture(scope="module")
def shipped():
    return catalogue.load()


def test_every_model_of_the_engines_is_in_it_and_no_other(shipped):
    assert sorted(shipped.models) == sorted(engine_catalogue.names())


def test_family_kind_and_licence_are_the_locks(shipped):
    for name, entry in shipped.models.items():
        model = engine_catalogue.get(name)
        assert (entry.family, entry.kind, entry.licence) == (model.family, model.kind, model.licence), name


def test_every_model_is_one_that_the_probe_can_ask(shipped):
    assert all(kinds.kinds_of(name) for name in shipped.models)


def test_the_voices_are_those_of_the_checkpoint(shipped):
    for name, entry in shipped.models.items():
        assert set(entry.voices) == (set(layout.SPEAKERS) if entry.kind == "custom_voice" else set())
        assert all(set(voice.languages) <= set(entry.languages) for voice in entry.voices.values()), name


def test_an_engine_under_another_name_is_found_by_its_checkpoint(shipped):
    assert shipped.find("my-voice", f"/models/{CUSTOM_VOICE}/") is shipped.models[CUSTOM_VOICE]
    assert shipped.find("my-voice", "") is None


@pytest.fixture
def broken(tmp_path):
    """Return the error of the shipped catalogue with one change made to it."""

    def broken(change):
        document = yaml.safe_load((paths.root() / "configs/catalog.yaml").read_text())
        change(document["models"][CUSTOM_VOICE], document)
        path = tmp_path / "catalog.yaml"
        path.write_text(yaml.safe_dump(document))
        with pytest.raises(FirstwordError) as caught:
            catalogue.load(path)
        assert caught.value.code == Exit.CONFIG
        return caught.value.cause

    return broken


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda entry, _: entry.pop("licence"), "licence: Field required"),
        (lambda entry, _: entry.update(kind="custom"), "kind: Input should be"),
        (lambda entry, _: entry.update(colour="red"), "colour: Extra inputs are not permitted"),
        (lambda entry, _: entry.update(languages=[]), "languages: Tuple should have at least 1 item"),
        (lambda entry, _: entry.update(languages=["English"]), "languages.0: String should match pattern"),
        (lambda entry, _: entry["voices"].update({"../x": {"name": "X", "languages": ["en"]}}), "../x"),
        (lambda entry, _: entry.update(openai_voices={"alloy": "nobody"}), "alloy is mapped to nobody"),
        (lambda entry, _: entry.update(openai_voices={"vivian": "vivian"}), "openai_voices.vivian"),
        (lambda entry, _: entry.update(tasks=["dance"]), "tasks.0"),
        (lambda entry, _: entry.update(speech_fields=["colour"]), "speech_fields.0"),
        (lambda _, document: document["models"].update({"a b": {}}), "a b"),
        (lambda _, document: document["aliases"].update({"tts-2": ["nobody"]}), "tts-2 is an alias of nobody"),
        (lambda _, document: document["aliases"].update({"tts-2": []}), "aliases.tts-2"),
        (lambda _, document: document["aliases"].update({CUSTOM_VOICE: [CUSTOM_VOICE]}), "is an alias and a model"),
        (lambda _, document: document["language_names"].pop("es"), "es, a language of"),
        (lambda _, document: document.pop("models"), "models: Field required"),
    ],
)
def test_a_mistake_is_named(broken, change, named):
    assert named in broken(change)


def test_openais_names_are_all_there(shipped):
    for name, entry in shipped.models.items():
        if entry.kind == "custom_voice":
            assert len(entry.openai_voices) == 13, name
    speaking, listening = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts"), ("whisper-1", "gpt-4o-transcribe")
    for alias in (*speaking, *listening, "gpt-4o-mini-transcribe"):
        tasks = {shipped.models[model].tasks for model in shipped.aliases[alias]}
        assert all(("speech" if alias in speaking else "transcription") in each for each in tasks)


@pytest.mark.parametrize(
    ("name", "alias", "language"),
    [
        ("tts-1", "tts-1", None),
        ("tts-1-es", "tts-1", "es"),
        ("tts-1-hd", "tts-1-hd", None),
        ("tts-1-hd-zh", "tts-1-hd", "zh"),
        ("whisper-1-ja", "whisper-1", "ja"),
        ("whisper-1-es", None, None),
        ("tts-1-", None, None),
        ("tts-9", None, None),
    ],
)
def test_an_alias_may_end_with_a_language(shipped, name, alias, language):
    assert shipped.aliased(name) == (shipped.aliases.get(alias, ()), language)


def test_openai_names_may_be_mapped(tmp_path):
    entry = {"family": "qwen3-tts", "kind": "custom_voice", "licence": "Apache-2.0", "languages": ["en"]}
    entry["tasks"] = ["speech"]
    entry |= {"voices": {"ryan": {"name": "Ryan", "languages": ["en"]}}, "openai_voices": {"alloy": "ryan"}}
    path = tmp_path / "catalog.yaml"
    path.write_text(yaml.safe_dump({"models": {"m": entry}, "language_names": {"en": "English"}}))
    assert catalogue.load(path).models["m"].openai_voices == {"alloy": "ryan"}


@pytest.mark.parametrize("text", ["models: [", ""])
def test_no_yaml_or_nothing_is_one_clear_line(tmp_path, text):
    path = tmp_path / "catalog.yaml"
    path.write_text(text)
    with pytest.raises(FirstwordError, match=r"catalog\.yaml"):
        catalogue.load(path)
