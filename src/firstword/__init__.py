"""Serve Step-Audio-2-mini and Qwen3-TTS on vLLM-Omni; ready only after a first real answer."""

__version__ = "0.1.0"
