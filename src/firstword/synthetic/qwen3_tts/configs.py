"""The JSON files of the checkpoint, with the published keys."""

import json
from pathlib import Path

from firstword.synthetic.qwen3_tts import layout as at
from firstword.synthetic.qwen3_tts import speaker_encoder, speech_decoder, speech_encoder
from firstword.synthetic.tokenizer import Tokenizer


def write(kind: str, folder: Path, tokenizer: Tokenizer) -> None:
    """Write every JSON file but the tokenizer's.

    Args:
        kind: ``custom_voice``, ``voice_design`` or ``base``.
        folder: The checkpoint's folder.
        tokenizer: Gives the ids of the special tokens.
    """
    _write(folder / "config.json", _model(kind, tokenizer))
    _write(folder / "generation_config.json", _generation())
    _write(
        folder / "preprocessor_config.json",
        {"padding_side": "left", "padding_value": 0.0, "processor_class": "Qwen3TTSProcessor"},
    )
    speech = folder / "speech_tokenizer"
    speech.mkdir(exist_ok=True)
    _write(speech / "config.json", _speech_tokenizer())
    _write(speech / "configuration.json", {"framework": "pytorch", "task": "feature-extraction"})
    _write(
        speech / "preprocessor_config.json",
        {
            "chunk_length_s": None,
            "feature_extractor_type": "EncodecFeatureExtractor",
            "feature_size": 1,
            "overlap": None,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": True,
            "sampling_rate": 24000,
        },
    )


def _model(kind: str, tokenizer: Tokenizer) -> dict[str, object]:
    speakers = at.SPEAKERS if kind == "custom_voice" else {}
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": tokenizer.pieces.index(b"assistant"),
        "im_end_token_id": tokenizer.specials[at.TURN_END],
        "im_start_token_id": tokenizer.specials[at.TURN_START],
        "model_type": "qwen3_tts",
        "speaker_encoder_config": speaker_encoder.config(),  # the class is built for every kind
        "talker_config": _talker(speakers, tokenizer.size),
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "torch_dtype": "bfloat16",
        "tts_bos_token_id": tokenizer.specials[at.TTS_BOS],
        "tts_eos_token_id": tokenizer.specials[at.TTS_EOS],
        "tts_model_size": "0b6",
        "tts_model_type": kind,
        "tts_pad_token_id": tokenizer.specials[at.TTS_PAD],
    }


def _talker(speakers: dict[str, int], text_vocabulary: int) -> dict[str, object]:
    return {
        **_qwen3(at.HEADS, at.LAYERS),
        "code_predictor_config": {
            **_qwen3(at.PREDICTOR_HEADS, at.PREDICTOR_LAYERS),
            "max_position_embeddings": 65536,
            "model_type": "qwen3_tts_talker_code_predictor",
            "rope_scaling": None,
            "vocab_size": at.CODES,
        },
        "codec_bos_id": at.BOS,
        "codec_eos_token_id": at.EOS,
        "codec_language_id": at.LANGUAGES,
        "codec_nothink_id": at.NOTHINK,
        "codec_pad_id": at.PAD,
        "codec_think_bos_id": at.THINK_BOS,
        "codec_think_eos_id": at.THINK_EOS,
        "codec_think_id": at.THINK,
        "max_position_embeddings": 32768,
        "model_type": "qwen3_tts_talker",
        "position_id_per_seconds": 13,
        "rope_scaling": {"interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default", "type": "default"},
        "spk_id": speakers,
        "spk_is_dialect": {name: at.DIALECTS.get(name, False) for name in speakers},
        "text_hidden_size": at.TEXT_HIDDEN,
        "text_vocab_size": text_vocabulary,
        "vocab_size": at.VOCABULARY,
    }


def _qwen3(heads: int, layers: int) -> dict[str, object]:
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "head_dim": at.HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": at.HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": at.INTERMEDIATE,
        "num_attention_heads": heads,
        "num_code_groups": at.GROUPS,
        "num_hidden_layers": layers,
        "num_key_value_heads": at.KV_HEADS,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "sliding_window": None,
        "use_cache": True,
        "use_sliding_window": False,
    }


def _generation() -> dict[str, object]:
    return {
        "do_sample": True,
        "max_new_tokens": 8192,
        "repetition_penalty": 1.05,
        "subtalker_dosample": True,
        "subtalker_temperature": 0.9,
        "subtalker_top_k": 50,
        "subtalker_top_p": 1.0,
        "temperature": 0.9,
        "top_k": 50,
        "top_p": 1.0,
    }


def _speech_tokenizer() -> dict[str, object]:
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": at.GROUPS,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": speech_decoder.config(),
        "encoder_config": speech_encoder.config(),
    }


def _write(file: Path, content: dict[str, object]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
