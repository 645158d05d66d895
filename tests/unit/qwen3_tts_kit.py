"""A synthetic Qwen3-TTS in one process, from the engine's own classes.

vLLM-Omni's prompt builder, code predictor, speaker encoder and speech tokenizer; only the talker's
backbone is transformers' Qwen3, because vLLM's attention needs an engine around it.
"""

import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from transformers import AutoFeatureExtractor, Qwen3Config, Qwen3Model
from vllm_omni.model_executor.models.common.qwen3_code_predictor import CodePredictorWrapper
from vllm_omni.model_executor.models.qwen3_tts.configuration_qwen3_tts import Qwen3TTSConfig
from vllm_omni.model_executor.models.qwen3_tts.prompt_embeds_builder import Qwen3TTSPromptEmbedsBuilder
from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_code_predictor_vllm import (
    Qwen3TTSTalkerCodePredictorForConditionalGenerationVLLM as CodePredictor,
)
from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_talker import (
    Qwen3TTSSpeakerEncoder,
    Qwen3TTSTalkerForConditionalGeneration,
    Qwen3TTSTalkerResizeMLP,
)
from vllm_omni.model_executor.models.qwen3_tts.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2Config,
)
from vllm_omni.model_executor.models.qwen3_tts.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2Decoder,
    Qwen3TTSTokenizerV2Encoder,
)

BF16 = torch.bfloat16
CODES, GROUPS, EOS = 2048, 16, 2150

logging.getLogger("transformers").setLevel(logging.ERROR)


def starting(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


class SpeechTokenizer:
    def __init__(self, folder: Path) -> None:
        tensors = load_file(folder / "speech_tokenizer" / "model.safetensors")
        config = Qwen3TTSTokenizerV2Config.from_pretrained(folder, subfolder="speech_tokenizer")
        self.decoder = Qwen3TTSTokenizerV2Decoder._from_config(config.decoder_config).eval()
        self.decoder.load_state_dict(starting(tensors, "decoder."))
        self.decoder.precompute_snake_caches()
        self.encoder = Qwen3TTSTokenizerV2Encoder._from_config(config.encoder_config).eval()
        self.encoder.load_state_dict(starting(tensors, "encoder."))
        self.encoder.to(BF16)
        self._as_talker = SimpleNamespace(
            _encoder_feature_extractor=AutoFeatureExtractor.from_pretrained(folder, subfolder="speech_tokenizer"),
            encoder=self.encoder,
            _encoder_valid_num_quantizers=config.encoder_valid_num_quantizers,
            _encoder_downsample_rate=config.encode_downsample_rate,
        )

    def encode(self, waves: list[np.ndarray], rate: int, device: torch.device) -> list[torch.Tensor]:
        encode = Qwen3TTSTalkerForConditionalGeneration._encode_ref_audio_batch
        return encode(self._as_talker, waves, rate, device=device)

    @torch.inference_mode()
    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """Return samples ``[batch, time]`` of codes ``[batch, groups, frames]``."""
        return self.decoder.chunked_decode(codes)[:, 0]


class Talker:
    def __init__(self, folder: Path, speech: SpeechTokenizer) -> None:
        self.config = Qwen3TTSConfig.from_pretrained(folder)
        talker = self.config.talker_config
        tensors = starting(load_file(folder / "model.safetensors"), "talker.")
        self.codec = nn.Embedding.from_pretrained(tensors["model.codec_embedding.weight"])
        self.head = tensors["codec_head.weight"]
        self.backbone = self._make_backbone(tensors)
        self.predictor = CodePredictor(
            vllm_config=SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8)),
            config=talker.code_predictor_config,
            talker_config=talker,
        ).to(BF16)
        CodePredictorWrapper.load_weights(self.predictor, starting(tensors, "code_predictor.").items())
        self.residuals = torch.stack([embedding.weight for embedding in self.predictor.get_input_embeddings()])
        projection = Qwen3TTSTalkerResizeMLP(
            talker.text_hidden_size, talker.text_hidden_size, talker.hidden_size, talker.hidden_act, bias=True
        ).to(BF16)
        projection.load_state_dict(starting(tensors, "text_projection."))
        text = nn.Embedding.from_pretrained(tensors["model.text_embedding.weight"])
        self.pad = projection(text(torch.tensor([self.config.tts_pad_token_id])))
        self.speaker_encoder = Qwen3TTSSpeakerEncoder(self.config.speaker_encoder_config).to(BF16).eval()
        speaker = starting(load_file(folder / "model.safetensors"), "speaker_encoder.")
        if speaker:
            self.speaker_encoder.load_state_dict(speaker)
        self.builder = Qwen3TTSPromptEmbedsBuilder(
            config=self.config,
            talker_config=talker,
            model_path=str(folder),
            text_embedding=text,
            text_projection=projection,
            codec_embed=self.codec,
            residual_code_embeddings=self.predictor.get_input_embeddings,
            speaker_encoder=self.speaker_encoder,
            tts_pad_embed=self.pad,
            encode_ref_audio_batch=speech.encode,
        )

    def _make_backbone(self, tensors: dict[str, torch.Tensor]) -> Qwen3Model:
        talker = self.config.talker_config
        same = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
        same += ("head_dim", "intermediate_size", "rms_norm_eps")
        config = Qwen3Config(vocab_size=1, **{name: getattr(talker, name) for name in same})
        config.rope_parameters = {"rope_type": "default", "rope_theta": float(talker.rope_theta)}
        backbone = Qwen3Model(config).to(BF16).eval()
        mine = {name: tensor for name, tensor in starting(tensors, "model.").items() if "embedding" not in name}
        result = backbone.load_state_dict(mine, strict=False)
        assert result.missing_keys == ["embed_tokens.weight"]
        assert result.unexpected_keys == []
        return backbone

    @torch.inference_mode()
    def prompt(self, **request: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return the prompt ``[positions, hidden]``, the text that follows, and the reference's codes."""
        task = str(request.get("task_type", "CustomVoice"))
        listed = {name: [value] for name, value in request.items()}
        prompt, trailing, _, reference = self.builder.build_prompt_embeds(task_type=task, info_dict=listed)
        return prompt, trailing, reference

    def frame(self, codes: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Return the next inputs ``[frames, hidden]`` for frames of 16 codes."""
        books = torch.arange(GROUPS - 1)
        return self.codec(codes[:, 0]) + self.residuals[books, codes[:, 1:]].sum(1) + text

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return logits as the engine masks them: codes 1 to 2047 and the end token."""
        logits = functional.linear(hidden, self.head).float()
        allowed = torch.zeros(logits.shape[-1], dtype=torch.bool)
        allowed[1:CODES] = allowed[EOS] = True
        return logits.masked_fill(~allowed, -torch.inf)

    @torch.inference_mode()
    def forced(self, codes: torch.Tensor, **request: object) -> torch.Tensor:
        """Return the logits ``[frames + 1, vocabulary]`` before and after each of the given frames."""
        prompt, trailing, _ = self.prompt(**request)
        text = torch.cat([trailing[: len(codes)], self.pad.expand(max(0, len(codes) - len(trailing)), -1)])
        inputs = torch.cat([prompt, self.frame(codes, text)])
        hidden = self.backbone(inputs_embeds=inputs[None]).last_hidden_state[0]
        return self.logits(hidden[len(prompt) - 1 :])

    @torch.inference_mode()
    def say(self, seed: int, most: int, temperature: float = 0.9, **request: object) -> tuple[torch.Tensor, bool]:
        """Sample as the engine does (top 50). Return codes ``[frames, 16]`` and whether it ended by itself."""
        first, second = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        prompt, trailing, _ = self.prompt(**request)
        cache, inputs = None, prompt
        frames: list[torch.Tensor] = []
        while len(frames) < most:
            output = self.backbone(inputs_embeds=inputs[None], past_key_values=cache, use_cache=True)
            cache, hidden = output.past_key_values, output.last_hidden_state[0, -1:]
            logits = self.logits(hidden)[0] / temperature
            logits[logits < logits.topk(50).values[-1]] = -torch.inf
            code = torch.multinomial(logits.softmax(0), 1, generator=first)
            if int(code) == EOS:
                return torch.stack(frames), True
            codes = self.predictor(
                layer0_code=code[None],
                layer0_embed=self.codec(code)[None],
                last_talker_hidden=hidden[None],
                temperature=temperature,
                generator=second,
            )
            text = trailing[len(frames) : len(frames) + 1] if len(frames) < len(trailing) else self.pad
            frames.append(codes[0])
            inputs = self.frame(codes, text)
        return torch.stack(frames), False
