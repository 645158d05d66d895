"""The rows of the table: each takes one thing away from what serving Step-Audio-2 needs."""

from dataclasses import dataclass, field

from firstword.engine.stock_failures.overlay import Change

_FLOW = "cosyvoice2/flow/flow.py"


@dataclass(frozen=True)
class Row:
    """One thing taken away, and what is asked of the server then.

    Attributes:
        key: Its name in docs/stock-failures.json.
        missing: What the table calls it.
        change: What is done to the environment.
        no_file: A file taken from the checkpoint.
        warm: Start with the VLLM_CACHE_ROOT of a start that went well, instead of an empty one.
        audio: Ask for recognition first; else for speech alone.
    """

    key: str
    missing: str
    change: Change = field(default_factory=Change)
    no_file: str | None = None
    warm: bool = False
    audio: bool = False


def _without(name: str, *, warm: bool = False, audio: bool = False, note: str = "") -> Row:
    key = f"{name}-warm" if warm else name
    text = f"`{name}`" + (", warm `VLLM_CACHE_ROOT`" if warm else "") + note
    return Row(key, text, Change(without=(name,)), warm=warm, audio=audio)


def _file(name: str) -> Row:
    return Row(name, f"file `{name}`", no_file=f"token2wav/{name}")


ROWS: tuple[Row, ...] = (
    _without("soundfile"),
    _without("torchaudio"),
    _without("scipy"),
    _without("av", audio=True),
    _without("librosa"),
    _without("librosa", warm=True),
    _without("s3tokenizer"),
    _without("s3tokenizer", warm=True),
    _without("hyperpyyaml"),
    _without("onnxruntime"),
    _without("step-audio2"),
    Row("cosyvoice2", "`cosyvoice2`, a part of step-audio2", Change(delete=("cosyvoice2",))),
    Row("cosyvoice2-part", "`cosyvoice2/utils/mask.py`", Change(delete=("cosyvoice2/utils/mask.py",))),
    Row(
        "cosyvoice2-raises",
        f"nothing, but `{_FLOW}` raises on import",
        Change(edit={_FLOW: lambda text: f'raise RuntimeError("broken")\n{text}'}),
    ),
    Row(
        "cosyvoice2-renamed",
        "class `CausalMaskedDiffWithXvec` (renamed)",
        Change(edit={_FLOW: lambda text: text.replace("class CausalMaskedDiffWithXvec", "class CausalMaskedDiff")}),
    ),
    _file("flow.yaml"),
    _file("flow.pt"),
    _file("hift.pt"),
    _file("campplus.onnx"),
    _file("speech_tokenizer_v2_25hz.onnx"),
)
# Nothing taken away: it must serve, and it leaves a warm VLLM_CACHE_ROOT.
CONTROL = Row("nothing", "nothing", audio=True)


def row(key: str) -> Row:
    """Return the row of that name."""
    return next(found for found in (CONTROL, *ROWS) if found.key == key)
