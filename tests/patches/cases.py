"""What each patch's check finds with the series, and without the patch."""

from case import Case
from cases_engine import ENGINE
from cases_qwen3_tts import QWEN3_TTS
from cases_step_audio_2 import STEP_AUDIO_2
from cases_syncs import SYNC_CASES

CASES = STEP_AUDIO_2 | QWEN3_TTS | ENGINE | {name: Case(*case) for name, case in SYNC_CASES.items()}
