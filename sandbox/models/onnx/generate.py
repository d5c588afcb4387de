"""Generates the ONNX files of model_repository/; run by the embedded Triton's interpreter (needs onnx, numpy).

    python generate.py FOLDER        writes FOLDER/resnet18.onnx and FOLDER/label_head.onnx

resnet18 is the true graph (batch normalisation folded into the convolutions, 11.7 million parameters) with
seeded random weights: the load is real, the classes mean nothing. The same seed gives the same file everywhere.
"""

import os
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# The oldest IR version that goes with opset 17, so that older onnxruntime backends read it too.
IR_VERSION = 8
SEED = 18
CLASSES = 1000
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


class GraphBuilder:
    """Collects nodes and weights, naming each tensor after its place."""

    def __init__(self, seed):
        self.nodes = []
        self.weights = []
        self._random = np.random.default_rng(seed)

    def node(self, kind, inputs, output, **attributes):
        """Append one operator; returns the name of its output."""
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def weight(self, name, shape, scale):
        """Append a normally distributed weight of the given standard deviation; returns its name."""
        values = (self._random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def zeros(self, name, length):
        """Append a bias of zeros; returns its name."""
        self.weights.append(numpy_helper.from_array(np.zeros(length, np.float32), name))
        return name

    def convolution(self, name, source, channels, kernel, stride):
        """A convolution with bias, padded to keep the size at stride 1; channels = (in, out)."""
        before, after = channels
        # He initialisation keeps the activations' size through eighteen layers.
        scale = np.sqrt(2.0 / (before * kernel * kernel))
        weight = self.weight(f"{name}.weight", (after, before, kernel, kernel), scale)
        bias = self.zeros(f"{name}.bias", after)
        return self.node(
            "Conv",
            [source, weight, bias],
            name,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )

    def basic_block(self, name, source, channels, stride):
        """ResNet's basic block: two 3x3 convolutions beside a shortcut."""
        before, after = channels
        path = self.convolution(f"{name}.conv1", source, (before, after), 3, stride)
        path = self.node("Relu", [path], f"{name}.relu1")
        path = self.convolution(f"{name}.conv2", path, (after, after), 3, 1)
        shortcut = source
        if stride != 1 or before != after:
            shortcut = self.convolution(f"{name}.downsample", source, (before, after), 1, stride)
        total = self.node("Add", [path, shortcut], f"{name}.add")
        return self.node("Relu", [total], f"{name}.relu2")


def resnet18():
    """ResNet-18: input [batch, 3, 224, 224] FP32 -> output [batch, 1000] FP32."""
    builder = GraphBuilder(SEED)
    flow = builder.convolution("stem", "input", (3, 64), 7, 2)
    flow = builder.node("Relu", [flow], "stem.relu")
    flow = builder.node(
        "MaxPool", [flow], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    before = 64
    for number, (after, stride) in enumerate(STAGES, start=1):
        flow = builder.basic_block(f"stage{number}.block1", flow, (before, after), stride)
        flow = builder.basic_block(f"stage{number}.block2", flow, (after, after), 1)
        before = after
    flow = builder.node("GlobalAveragePool", [flow], "pool")
    flow = builder.node("Flatten", [flow], "flat")
    weight = builder.weight("head.weight", (before, CLASSES), 0.04)
    builder.node("Gemm", [flow, weight, builder.zeros("head.bias", CLASSES)], "output")
    return finish(
        "resnet18", builder, tensor("input", "FLOAT", [3, 224, 224]), tensor("output", "FLOAT", [CLASSES])
    )


def label_head():
    """The index of the largest score: emb [batch, 1000] FP32 -> label [batch, 1] INT64."""
    builder = GraphBuilder(SEED)
    builder.node("ArgMax", ["emb"], "label", axis=1, keepdims=1)
    return finish("label_head", builder, tensor("emb", "FLOAT", [CLASSES]), tensor("label", "INT64", [1]))


def tensor(name, kind, dims):
    """A graph input or output with a dynamic batch dimension first."""
    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), ["batch", *dims])


def finish(name, builder, source, target):
    """The checked model of a builder's nodes."""
    graph = helper.make_graph(builder.nodes, name, [source], [target], builder.weights)
    model = helper.make_model(
        graph,
        producer_name="tritonscope",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model)
    return model


def main():
    """Write every model into the folder named by the first argument, each completely or not at all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for build in (resnet18, label_head):
        target = folder / f"{build.__name__}.onnx"
        partial = target.with_suffix(f".{os.getpid()}.partial")
        onnx.save(build(), partial)
        partial.replace(target)


if __name__ == "__main__":
    main()
