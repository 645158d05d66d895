"""campplus.onnx: what is typical of a voice, as 192 numbers."""

from pathlib import Path

import numpy as np

FEATURES, EMBEDDING = 80, 192
OPSET, IR_VERSION = 13, 8


def write(path: Path, rng: np.random.Generator) -> None:
    """Write the speaker model: features ``[1, frames, 80]`` -> embedding ``[1, 192]``.

    The features come with their mean over time taken out, so their mean says nothing: what is used here
    is how far each moves.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = (rng.standard_normal((FEATURES, EMBEDDING)) * 0.1).astype(np.float32)
    nodes = [
        helper.make_node("Abs", ["features"], ["moves"]),
        helper.make_node("ReduceMean", ["moves"], ["range"], axes=[1], keepdims=0),
        helper.make_node("ReduceMean", ["range"], ["whole"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["range", "whole"], ["shape"]),
        helper.make_node("MatMul", ["shape", "weight"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["embedding"]),
    ]
    graph = helper.make_graph(
        nodes,
        "campplus",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, "frames", FEATURES])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, EMBEDDING])],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
