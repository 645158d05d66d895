"""Configuration of Step-Audio-2 checkpoints. A copy of this file stands in every checkpoint."""

# mypy: disable-error-code="misc"

from typing import Any, ClassVar

from transformers import PretrainedConfig, Qwen2Config


class StepAudio2EncoderConfig(PretrainedConfig):
    """The audio encoder and the adapter behind it."""

    model_type = "step_audio_2_encoder"

    def __init__(
        self,
        *,
        n_mels: int = 128,
        n_audio_ctx: int = 1500,
        n_audio_state: int = 512,
        n_audio_head: int = 8,
        n_audio_layer: int = 6,
        llm_dim: int = 4096,
        kernel_size: int = 3,
        adapter_stride: int = 2,
        **kwargs: Any,
    ) -> None:
        self.n_mels = n_mels
        self.n_audio_ctx = n_audio_ctx
        self.n_audio_state = n_audio_state
        self.n_audio_head = n_audio_head
        self.n_audio_layer = n_audio_layer
        self.llm_dim = llm_dim
        self.kernel_size = kernel_size
        self.adapter_stride = adapter_stride
        super().__init__(**kwargs)


class StepAudio2TextConfig(Qwen2Config):
    """The language model, a Qwen2."""

    model_type = "step_audio_2_text"


class StepAudio2Config(PretrainedConfig):
    """The whole model."""

    model_type = "step_audio_2"
    sub_configs: ClassVar[dict[str, type[PretrainedConfig]]] = {
        "text_config": StepAudio2TextConfig,
        "audio_encoder_config": StepAudio2EncoderConfig,
    }

    def __init__(
        self,
        text_config: StepAudio2TextConfig | dict[str, Any] | None = None,
        audio_encoder_config: StepAudio2EncoderConfig | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(text_config, StepAudio2TextConfig):
            text_config = StepAudio2TextConfig(**(text_config or {}))
        if not isinstance(audio_encoder_config, StepAudio2EncoderConfig):
            audio_encoder_config = StepAudio2EncoderConfig(**(audio_encoder_config or {}))
        self.text_config = text_config
        self.audio_encoder_config = audio_encoder_config
        super().__init__(**kwargs)

    def get_text_config(self, *_: Any, **__: Any) -> StepAudio2TextConfig:
        """Return the language model's configuration, whatever is asked about."""
        return self.text_config
