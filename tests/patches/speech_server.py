"""The speech endpoint's own object around an engine that keeps what it is given, and stage 0's prompt builder."""

import asyncio
import base64
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import torch
from vllm import SamplingParams
from vllm.utils.async_utils import make_async

from firstword.acceptance.recording import vowels

sys.path.append(str(Path(__file__).parents[1] / "unit"))

CHECKPOINT = Path(os.environ["CHECKPOINT"]).parent / "qwen3-tts-base-synthetic"


def recording(seconds: float = 1.2, *, pitch: float = 130.0) -> str:
    return "data:audio/wav;base64," + base64.b64encode(vowels(seconds, pitch=pitch)).decode()


def server(*, kind: str = "base", speakers: set[str] | None = None) -> Any:
    """Return a `OmniOpenAIServingSpeech` of a Qwen3-TTS checkpoint of this kind."""
    from vllm_omni.entrypoints.openai.serving_speech import OmniOpenAIServingSpeech
    from vllm_omni.model_executor.models.qwen3_tts.configuration_qwen3_tts import Qwen3TTSConfig

    made = OmniOpenAIServingSpeech.__new__(OmniOpenAIServingSpeech)
    os.environ["SPEAKER_SAMPLES_DIR"] = tempfile.mkdtemp()
    made._init_speaker_storage()
    config = Qwen3TTSConfig.from_pretrained(CHECKPOINT)
    config.tts_model_type = kind
    model_config = SimpleNamespace(
        hf_config=config,
        model=str(CHECKPOINT),
        async_chunk=True,
        allowed_local_media_path="",
        allowed_media_domains=None,
    )
    made.model_config = model_config
    made.engine_client = SimpleNamespace(
        errored=False,
        model_config=model_config,
        default_sampling_params_list=[SamplingParams(max_tokens=2048), SamplingParams(max_tokens=16384)],
    )
    made._tts_model_type, made._is_tts, made._adapter = "qwen3_tts", True, None
    made._tts_stage = SimpleNamespace(engine_args=SimpleNamespace(model_stage="qwen3_tts"))
    made._tts_tokenizer, made._max_instructions_length = None, 500
    made.supported_languages = made._load_supported_languages()
    made.supported_speakers = set(speakers or ())
    made._codec_frame_rate = made._load_codec_frame_rate()
    made._estimate_prompt_len_async = make_async(made._estimate_prompt_len)
    return made


def ask(made: Any, **fields: Any) -> SimpleNamespace:
    """Prepare a speech request. Return what the engine is given: ``prompt`` and ``params``; raises as the endpoint."""
    from vllm_omni.entrypoints.openai.protocol.audio import OpenAICreateSpeechRequest

    given: dict[str, Any] = {}
    made.engine_client.generate = lambda **kwargs: given.update(kwargs)
    request = OpenAICreateSpeechRequest(**{"input": "Hello there.", **fields})
    request_id, _, _ = asyncio.run(made._prepare_speech_generation(request))
    return SimpleNamespace(id=request_id, prompt=given["prompt"], params=given["sampling_params_list"])


def answered(made: Any, asked: SimpleNamespace) -> None:
    """Do what the endpoint does when a request's audio is complete."""
    made._mark_ref_audio_artifact_ready_for_request(asked.id)


def wire(asked: SimpleNamespace) -> bytes:
    """Return a request's information as it goes to the stage's process."""
    from vllm_omni.engine.serialization import serialize_additional_information

    return msgspec.msgpack.encode(serialize_additional_information(asked.prompt["additional_information"]))


def received(asked: SimpleNamespace) -> dict[str, Any]:
    """Return a request's information as the stage's process finds it."""
    from vllm_omni.engine import AdditionalInformationPayload
    from vllm_omni.engine.serialization import deserialize_additional_information

    return deserialize_additional_information(msgspec.msgpack.decode(wire(asked), type=AdditionalInformationPayload))


def builder() -> Callable[[list[SimpleNamespace]], list[Any]]:
    """Return a new stage 0's prompt builder: requests of one step -> their prompts, or the exceptions."""
    from qwen3_tts_kit import SpeechTokenizer, Talker
    from vllm_omni.utils.speaker_cache import SpeakerEmbeddingCache

    made = Talker(CHECKPOINT, SpeechTokenizer(CHECKPOINT)).builder
    made._speaker_cache = SpeakerEmbeddingCache()
    numbers = itertools.count()

    @torch.inference_mode()
    def build(requests: list[SimpleNamespace]) -> list[Any]:
        step = {str(next(numbers)): received(asked) for asked in requests}
        made.preprocess_batch(req_ids=list(step), model_intermediate_buffer=step, device=torch.device("cpu"))
        out: list[Any] = []
        for info in step.values():
            try:
                out.append(made.build_prompt_embeds(task_type=info["task_type"][0], info_dict=info)[0])
            except Exception as error:
                out.append(error)
        return out

    build.made = made  # type: ignore[attr-defined]
    return build
