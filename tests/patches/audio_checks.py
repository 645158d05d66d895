"""Check what becomes of a request's audio before a stage sees it, and what the encoder gives for it."""

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

CHECKPOINT = os.environ["CHECKPOINT"]
RATE = 16000
CONTEXT = 2048  # tokens
REASONS = ("too short", "not a number", "sampling rate", "missing or empty")


def _info() -> Any:
    from vllm.multimodal.processing import InputProcessingContext
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    multimodal = SimpleNamespace(
        enable_mm_embeds=False,
        get_limit_per_prompt=lambda _: 9,
        merge_mm_processor_kwargs=dict,
        mm_processor_kwargs=None,
    )
    model = SimpleNamespace(
        model=CHECKPOINT,
        max_model_len=CONTEXT,
        dtype=torch.float32,
        multimodal_config=multimodal,
        get_multimodal_config=lambda: multimodal,
        hf_config=SimpleNamespace(),
    )
    context = InputProcessingContext(model_config=model, tokenizer=None)
    return module.StepAudio2ProcessingInfo(context)


def _tone(samples: int, pitch: float = 220, rate: int = RATE) -> Any:
    return (0.2 * np.sin(2 * np.pi * pitch * np.arange(samples) / rate)).astype(np.float32)


def refused() -> dict[str, Any]:
    """Parse audio as the API process does, and return what it says about each."""
    info = _info()
    bad = _tone(RATE)
    bad[7] = np.nan
    loud = _tone(RATE)
    loud[7] = 3e38
    said = {}
    for name, audio in {
        "28 samples": (_tone(28), RATE),
        "none": (_tone(0), RATE),
        "320 samples": (_tone(320), RATE),
        "20 ms at 48 kHz": (_tone(960, rate=48000), 48000),
        "not a number": (bad, RATE),
        "not a number, resampled": (bad, 44100),
        "infinite": (np.full(RATE, np.inf, np.float32), RATE),
        "overflows": (loud, RATE),
        "1 Hz": (_tone(RATE), 1),
        "768 kHz": (_tone(RATE), 768000),
        "empty": None,
        "321 samples": (_tone(321), RATE),
        "silence": (np.zeros(RATE, np.float32), RATE),
        "8 kHz": (_tone(8000, rate=8000), 8000),
        "11.025 kHz": (_tone(11025, rate=11025), 11025),
        "192 kHz": (_tone(192000, rate=192000), 192000),
        "8 channels": (np.tile(_tone(RATE), (8, 1)), RATE),
    }.items():
        try:
            items = info.get_data_parser().parse_mm_data({"audio": [audio]})["audio"]
        except ValueError as error:
            said[name] = next((word for word in REASONS if word in str(error)), str(error))
        except AssertionError as error:
            said[name] = f"AssertionError: {error}"
        else:
            shape = np.shape(items.get(0))
            said[name] = "accepted" if len(shape) == 1 else f"accepted in shape {shape}"
    return said


PROMPT = "<audio_start><audio_patch><audio_end>"


def _process(*audios: Any) -> tuple[list[Any], list[Any], list[int]]:
    """Return each audio's item, its place in the prompt, and the prompt's ids, as the API process makes them."""
    from vllm.multimodal.processing import ProcessorInputs, TimingContext
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    info = _info()
    processor = module.StepAudio2MultiModalProcessor(info, module.StepAudio2DummyInputsBuilder(info))
    ids = info.get_tokenizer()(PROMPT * len(audios))["input_ids"]
    items = info.get_data_parser().parse_mm_data({"audio": [(audio, RATE) for audio in audios]})
    inputs = processor.apply(ProcessorInputs(ids, items), TimingContext(enabled=False))
    return inputs["mm_kwargs"]["audio"], inputs["mm_placeholders"]["audio"], inputs["prompt_token_ids"]


def _encode(model: Any, *items: Any) -> list[torch.Tensor]:
    """Encode items as the runner does: those that stand in one step, in one batch."""
    from vllm.multimodal.utils import group_and_batch_mm_kwargs

    features: list[torch.Tensor] = []
    for _, count, kwargs in group_and_batch_mm_kwargs([("audio", item) for item in items]):
        part = model.embed_multimodal(**kwargs)
        assert len(part) == count, f"{len(part)} embeddings for {count} items"
        features += part
    return features


@torch.inference_mode()
def items() -> dict[str, Any]:
    """Two audios of one request, encoded together and, as after a cache hit for one of them, each alone."""
    from thinker_checks import _encoder

    model = _encoder()
    torch.manual_seed(0)
    for parameter in model.parameters():  # the synthetic weights round: small differences would not show
        parameter.normal_(std=0.1)
    audios = _tone(RATE + 160), _tone(RATE * 2, 440)  # an odd and an even number of frames
    both, places, _ = _process(*audios)
    alone = [_encode(model, *_process(audio)[0])[0] for audio in audios]
    facts = {
        "placeholders": [place.get_num_embeds() for place in places],
        "features of each alone": [len(f) for f in alone],
        "same features together": [torch.equal(*pair) for pair in zip(_encode(model, *both), alone, strict=True)],
    }
    for index, name in enumerate(("first", "second")):
        try:
            facts[f"the {name} without the other"] = len(_encode(model, both[index])[0])
        except (IndexError, RuntimeError) as error:
            facts[f"the {name} without the other"] = type(error).__name__
    return facts


@torch.inference_mode()
def pieces() -> dict[str, Any]:
    """Recordings around the encoder's window and the context's limit: placeholders, marks between, features."""
    from thinker_checks import _encoder

    model = _encoder()
    facts: dict[str, Any] = {}
    for seconds in (25, 25.01, 29, 30, 62, 150, 151):
        audio = _tone(round(seconds * RATE))
        try:
            (item,), (place,), ids = _process(audio)
            features = _encode(model, item)[0]
        except (ValueError, RuntimeError) as error:
            facts[f"{seconds} s"] = str(error)
            continue
        facts[f"{seconds} s"] = [place.get_num_embeds(), len(features), place.length - place.get_num_embeds()]
        if seconds == 62:
            first = _encode(model, *_process(audio[: 25 * RATE])[0])[0]
            facts["starts as its first piece alone"] = torch.equal(features[: len(first)], first)
            facts["where the next piece begins"] = ids[place.offset + 313 : place.offset + 315]
    facts["most tokens of an item"] = _info().get_mm_max_tokens_per_item(CONTEXT, {"audio": 1})["audio"]
    return facts
