"""The model check: every file that serving reads is there, whole, and the pinned one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from firstword import documents
from firstword.engine.models import made, weights
from firstword.engine.preflight.context import Context, FilePin
from firstword.engine.preflight.finding import Finding
from firstword.engine.preflight.flow_yaml import read_flow_yaml
from firstword.engine.preflight.integrity import file_digest
from firstword.engine.preflight.model.files import INDEX, PARSED, absence, is_there, needed, token2wav_files
from firstword.engine.preflight.phases import FIRST_SPEECH, STAGE_PROCESS, START, Phase
from firstword.errors import Exit, FirstwordError

CHECK = "model"
_SAFETENSORS = "SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered"
_TORCH = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
_ONNX = "google.protobuf.message.DecodeError: Error parsing message"


def model_files(context: Context) -> Iterator[Finding]:
    """Yield a finding for each file of the checkpoint that is missing, cut short or another one."""
    model, family = context.model_dir, context.family
    if model is None or family is None:
        return
    checker = _Checker(context, model)
    if not model.is_dir():
        state = documents.state(model) or "is a file"
        cause = f"there is no folder {model}" if state == "is missing" else f"{model} {state}, no folder"
        yield checker.finding(model.name, cause, START, "OSError: it is no model id either")
        return
    missing = list(checker.missing(family))
    yield from missing
    yield from checker.documents({found.subject for found in missing})
    yield from checker.geometry(family)
    yield from checker.weights({found.subject for found in missing})
    if context.speaks:
        yield from checker.token2wav()
    yield from checker.pinned({found.subject for found in missing})
    yield from checker.remote_code({found.subject for found in missing})


def _mend(model: Path) -> str:
    """Return what makes the checkpoint whole again."""
    from firstword.engine.models import catalog

    if model.name in catalog.SYNTHETIC:
        return f"firstword synthetic {model.name} {model}"
    if model.name in catalog.names():
        if not model.is_dir():
            first = f"rm {model} && " if model.exists() or model.is_symlink() else ""
            return f"{first}firstword models download {model.name}"
        repair = "" if all(path.name.startswith(".") for path in model.iterdir()) else " --repair"
        return f"firstword models download {model.name}{repair}"
    return f"copy the whole checkpoint to {model}"


class _Checker:
    def __init__(self, context: Context, model: Path) -> None:
        self.context = context
        self.model = model
        self.mend = _mend(model)

    def finding(self, name: str, cause: str, phase: Phase, error: str, *, code: Exit | None = None) -> Finding:
        mend = self.mend
        if documents.state(self.model / name) == documents.FORBIDDEN:
            mend = f"let the user with id {os.geteuid()} read {self.model / name}"
        return Finding(CHECK, name, cause, phase.later(error), mend, code or Exit.CHECKPOINT_INCOMPLETE)

    def missing(self, family: str) -> Iterator[Finding]:
        for need in needed(family, self.context.model_config, speaks=self.context.speaks):
            if not any(is_there(self.model, name) for name in need.any_of):
                states = {name: documents.state(self.model / name) or "is missing" for name in need.any_of}
                name = next((name for name, state in states.items() if state != "is missing"), need.any_of[0])
                what = f"{' or '.join(need.any_of)} is missing from the checkpoint"
                if states[name] != "is missing":
                    what = f"{name} {states[name]}"
                cause = f"{what}: {need.reader} reads it"
                yield self.finding(name, cause, need.phase, absence(name))
        if is_there(self.model, "vocab.json") and not any(
            is_there(self.model, name) for name in ("tokenizer.json", "merges.txt")
        ):
            cause = "merges.txt is missing from the checkpoint: the tokenizer reads it with vocab.json"
            yield self.finding("merges.txt", cause, START, "TypeError in the tokenizer")

    def documents(self, known: set[str]) -> Iterator[Finding]:
        """Yield a finding for each file that must be a JSON object and is none."""
        for name in PARSED:
            state = documents.state(self.model / name)
            if name in known or state in ("is missing", "is empty"):
                continue
            fault = f"it {state}"
            if state is None:
                try:
                    good = isinstance(documents.read_json(self.model / name), dict)
                    fault = "" if good else "it is another value"
                except (OSError, ValueError) as error:
                    fault = " ".join(str(error).split())
            if fault:
                phase = STAGE_PROCESS if "/" in name else START
                yield self.finding(name, f"{name} is no JSON object: {fault}", phase, "OSError: not a valid JSON file")

    def geometry(self, family: str) -> Iterator[Finding]:
        """Yield a finding when config.json does not give the sizes of a model of the family."""
        from firstword.engine.config import of_checkpoint

        if not self.context.model_config:
            return
        try:
            of_checkpoint(self.model, family)
        except FirstwordError as error:
            if isinstance(error.__cause__, OSError):
                return  # config.json was read; the other checks name what cannot be
            model = self.context.model_config.get("talker_config" if family == "qwen3-tts" else "text_config")
            if isinstance(error.__cause__, KeyError) and isinstance(model, dict) and model:
                return  # left out: the configuration class has a default
            yield self.finding("config.json", error.cause, START, "an error of the configuration class, or of a stage")

    def weights(self, known: set[str]) -> Iterator[Finding]:
        """Yield what is wrong with the safetensors files, and with the index if there is one."""
        broken = set()
        for path in sorted([*self.model.glob("*.safetensors"), *self.model.glob("speech_tokenizer/*.safetensors")]):
            name = path.relative_to(self.model).as_posix()
            fault = weights.safetensors_fault(path)
            if fault and name not in known and documents.state(path) != "is empty":
                broken.add(name)
                yield self.finding(name, f"{name}: {fault}", STAGE_PROCESS, _SAFETENSORS)
        index = self.model / INDEX
        if not is_there(self.model, INDEX):
            return
        try:
            places = weights.shards(index)
        except (OSError, ValueError) as error:
            yield self.finding(INDEX, f"{INDEX} is no index: {error}", STAGE_PROCESS, "JSONDecodeError")
            return
        for shard in sorted(set(places.values())):
            if not is_there(self.model, shard):
                cause = f"{shard} {documents.state(self.model / shard)}: {INDEX} names it"
                yield self.finding(shard, cause, STAGE_PROCESS, absence(shard))
            elif shard in broken:
                continue
            elif fault := weights.safetensors_fault(self.model / shard):  # in a folder of its own
                yield self.finding(shard, f"{shard}: {fault}", STAGE_PROCESS, _SAFETENSORS)
            else:
                absent = {name for name, place in places.items() if place == shard} - weights.tensor_names(
                    self.model / shard
                )
                if absent:
                    cause = f"{shard} does not hold {min(absent)}, which {INDEX} places there ({len(absent)} in all)"
                    yield self.finding(shard, cause, STAGE_PROCESS, "KeyError, or weights that stay uninitialised")

    def token2wav(self) -> Iterator[Finding]:
        """Yield what is wrong with the files that token2wav reads at the first speech request."""
        judges: dict[str, tuple[Callable[[Path], str | None], str]] = {
            ".pt": (weights.torch_fault, _TORCH),
            ".onnx": (weights.onnx_fault, _ONNX),
        }
        for name in token2wav_files():
            judge = judges.get(Path(name).suffix)
            if judge is None or not is_there(self.model, name):
                continue
            fault = judge[0](self.model / name)
            if fault:
                yield self.finding(name, f"{name}: {fault}", FIRST_SPEECH, judge[1])
            elif name.endswith(".onnx"):
                yield from self._beside(name)
        if is_there(self.model, "token2wav/flow.yaml"):
            yield from self._flow()

    def _beside(self, name: str) -> Iterator[Finding]:
        try:
            beside = weights.onnx_data_files(self.model / name)
        except ValueError as error:
            yield self.finding(name, f"{name}: it is cut short, or no ONNX file ({error})", FIRST_SPEECH, _ONNX)
            return
        for other, size in beside.items():
            path = (self.model / name).parent / other
            found = path.stat().st_size if path.is_file() else None
            if found is None or found < size:
                state = "is missing" if found is None else f"is cut short: {found} bytes of {size}"
                data = f"token2wav/{other}"
                yield self.finding(data, f"{data} {state}: {name} keeps its weights there", FIRST_SPEECH, _ONNX)

    def _flow(self) -> Iterator[Finding]:
        name = "token2wav/flow.yaml"
        try:
            flow = read_flow_yaml(self.model / name)
        except ImportError:  # PyYAML: the module check names it
            return
        if flow.error:
            yield self.finding(name, f"{name} is not YAML: {flow.error}", FIRST_SPEECH, "a YAML error")
        elif flow.refused:
            cause = f"{name} would run what is not on the allow-list: {', '.join(flow.refused)}"
            later = "nothing: hyperpyyaml imports and calls whatever the file names, with the engine's rights"
            mend = "use the file of the pinned revision; flow.yaml is code"
            yield Finding(CHECK, name, cause, later, mend, Exit.CHECKSUM)
        elif not flow.classes:
            yield self.finding(name, f"{name} names no class", FIRST_SPEECH, "KeyError: 'flow'")

    def pinned(self, known: set[str]) -> Iterator[Finding]:
        """Yield what differs from the pinned revision: sizes, and with ``deep`` checksums."""
        origin = "the checkpoint as it was made" if made.is_made(self.model) else "the pinned revision"
        for name, pin in sorted((self.context.manifest or {}).items()):
            path = self.model / name
            if name in known:
                continue
            if not documents.is_readable(path):
                state = documents.state(path)
                what = f"{name} is missing from the checkpoint" if state == "is missing" else f"{name} {state}"
                yield self.finding(name, f"{what}: {origin} has it", START, absence(name))
            elif differs := self._differs(path, pin):
                cause = f"{name} is not that of {origin}: {differs}"
                later = "nothing at start, as a rule: other weights or other code serve under the model's name"
                yield Finding(CHECK, name, cause, later, self.mend, Exit.CHECKSUM)

    def remote_code(self, known: set[str]) -> Iterator[Finding]:
        """Yield a finding when the checkpoint brings Python that nobody vouches for."""
        from firstword.engine.models import code

        try:
            code.require_known(self.model)
        except FirstwordError as error:
            if any(error.cause.startswith(f"{name} ") for name in known):
                return
            later = "nothing: vLLM runs the checkpoint's own Python (--trust-remote-code)"
            yield Finding(CHECK, "remote code", error.cause, later, error.mend, error.code)

    def _differs(self, path: Path, pin: FilePin) -> str | None:
        size = path.stat().st_size
        if pin.size is not None and size != pin.size:
            return f"{size} bytes, not {pin.size}"
        if self.context.deep and pin.sha256 is not None and file_digest(path) != pin.sha256:
            return "its SHA-256 differs"
        return None
