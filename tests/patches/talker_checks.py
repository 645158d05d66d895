"""Check the chunks that the talker's frames are sent in."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

FRAMES = 42
CONFIG = {"codec_chunk_frames": 25, "codec_left_context_frames": 72, "initial_codec_chunk_frames": 1}


def chunk_ends() -> dict[str, Any]:
    return {"in time": _sent(lag=0), "a frame late": _sent(lag=1), "late": _sent(lag=FRAMES)}


def _sent(lag: int) -> list[int]:
    """Return how many frames are new in each chunk when the talker is `lag` frames ahead of the sending thread."""
    import torch
    from vllm_omni.model_executor.stage_input_processors.qwen3_tts import talker2code2wav_async_chunk

    manager = SimpleNamespace(
        code_prompt_token_ids=defaultdict(list),
        put_req_chunk=defaultdict(int),
        request_payload={},
        connector=SimpleNamespace(config={"extra": CONFIG}),
    )
    request = SimpleNamespace(external_req_id="r", additional_information=None)
    sent = []
    for number in range(1, FRAMES + 1):
        request.is_finished = lambda number=number: number + lag >= FRAMES
        frame = {"codes": {"audio": torch.full((1, 16), number)}}
        payload = talker2code2wav_async_chunk(manager, frame, request, is_finished=number == FRAMES)
        if payload is not None and payload.codes.audio.numel():
            sent.append(payload.codes.audio.numel() // 16 - payload.meta.left_context_size)
    return sent
