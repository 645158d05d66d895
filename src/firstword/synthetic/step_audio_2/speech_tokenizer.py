"""speech_tokenizer_v2_25hz.onnx: what token2wav hears of its prompt voice.

s3tokenizer builds a network of fixed size, 123 million parameters, and takes its weights from the ONNX
file: convolutions and quantizer by the names that the export happened to give their initializers, all
else by the name of the *node* that uses an initializer. So all blocks may use the same initializer, and
s3tokenizer copies whole numbers into its float weights: with one set of weights for six blocks, in int8,
the published file's 496 MB become 20. (ONNX's external data could share even more, but onnx refuses such
a file once it has a second hard link.)
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firstword.synthetic.step_audio_2 import mel

if TYPE_CHECKING:
    import onnx

STATE = 1280
BLOCKS = 6
MEMORY_TAPS = 31
QUANTIZED = 8
OPSET, IR_VERSION = 17, 8


def write(path: Path, rng: np.random.Generator) -> None:
    """Write the speech tokenizer to ``path``, whose name must contain ``v2``: s3tokenizer goes by it."""
    graph = _Graph(rng)
    hidden = graph.apply("Conv", "/conv1/Conv", "mel", *graph.convolution("onnx::Conv_2216", mel.BANDS))
    hidden = graph.apply("Conv", "/conv2/Conv", hidden, *graph.convolution("onnx::Conv_2218", STATE))
    for block in range(BLOCKS):
        hidden = _block(graph, f"/blocks.{block}", hidden)
    # LayerNorm keeps what enters a block near 1, but the sum of all blocks is near 300.
    project = graph.constant(
        "onnx::MatMul_2536", rng.standard_normal((STATE, QUANTIZED)) / (200 * STATE**0.5), np.float16
    )
    hidden = graph.apply("MatMul", "/quantizer/project_in/MatMul", hidden, project)
    bias = graph.constant("quantizer.project_in.bias", np.zeros(QUANTIZED), np.float16)
    graph.apply("Add", "/quantizer/project_in/Add", bias, hidden)
    path.write_bytes(graph.model().SerializeToString(deterministic=True))


def _block(graph: "_Graph", name: str, hidden: str) -> str:
    hidden = graph.apply("LayerNormalization", f"{name}/attn_ln/LayerNormalization", hidden, *graph.norm())
    for part in ("query", "key", "value", "out"):
        hidden = graph.apply("MatMul", f"{name}/attn/{part}/MatMul", hidden, graph.ternary("square", STATE, STATE))
        if part != "key":
            hidden = graph.apply("Add", f"{name}/attn/{part}/Add", graph.zeros(STATE), hidden)
    memory = graph.ternary("memory", STATE, 1, MEMORY_TAPS)
    hidden = graph.apply("Conv", f"{name}/attn/fsmn_block/Conv", hidden, memory)
    hidden = graph.apply("LayerNormalization", f"{name}/mlp_ln/LayerNormalization", hidden, *graph.norm())
    for part, rows, columns in (("mlp.0", STATE, 4 * STATE), ("mlp.2", 4 * STATE, STATE)):
        hidden = graph.apply("MatMul", f"{name}/mlp/{part}/MatMul", hidden, graph.ternary(part, rows, columns))
        hidden = graph.apply("Add", f"{name}/mlp/{part}/Add", graph.zeros(columns), hidden)
    return hidden


class _Graph:
    """An ONNX graph in the making; each weight is added once, when it is first asked for."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._nodes: list[onnx.NodeProto] = []

    def apply(self, operator: str, name: str, *inputs: str) -> str:
        """Add a node and return the name of its output."""
        from onnx import helper

        output = f"{name}_output"
        self._nodes.append(helper.make_node(operator, inputs, [output], name=name))
        return output

    def constant(self, name: str, values: NDArray[np.generic], dtype: type[np.generic]) -> str:
        """Add an initializer and return its name."""
        from onnx import numpy_helper

        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(values.astype(dtype), name)
        return name

    def ternary(self, name: str, *shape: int) -> str:
        """Add a weight of -1, 0 and 1."""
        if name not in self._initializers:
            self.constant(name, self._rng.integers(-1, 2, shape), np.int8)
        return name

    def convolution(self, name: str, inputs: int) -> tuple[str, str]:
        """Add a convolution's weight under ``name`` and its bias under the number after it."""
        stem, number = name.rsplit("_", 1)
        bias = self.constant(f"{stem}_{int(number) + 1}", np.zeros(STATE), np.float16)
        return self.ternary(name, STATE, inputs, 3), bias

    def norm(self) -> tuple[str, str]:
        """Add a LayerNorm's weight and bias. The weight makes up for the size of ternary weights."""
        return self.constant("norm", np.full(STATE, 1 / 32), np.float16), self.zeros(STATE)

    def zeros(self, size: int) -> str:
        """Add zeros."""
        return self.constant(f"zeros_{size}", np.zeros(size), np.float16)

    def model(self) -> "onnx.ModelProto":
        """Return the finished model."""
        from onnx import TensorProto, helper

        graph = helper.make_graph(
            self._nodes,
            "speech_tokenizer",
            [helper.make_tensor_value_info("mel", TensorProto.FLOAT, [1, mel.BANDS, "frames"])],
            [helper.make_tensor_value_info(self._nodes[-1].output[0], TensorProto.FLOAT, None)],
            list(self._initializers.values()),
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
