"""The people, constraints and model of one comparison, as the adapters recourse_*.py read them, and the file of the
recourse points that they write.

In: a folder of compare.py with task.json (`cfq task show --json`), people.csv (row number and model inputs), train.csv
(model inputs) and a model. Out: a promises file in raw units. Every tool's points are brought to what data can hold: a
number to the nearest step, a one-hot group to its largest input.
"""

import csv
import json
import math
import os
import sys
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort

UNSET = "(missing)"  # the value of a one-hot group without any 1


def table(path):
    return np.loadtxt(path, np.float32, delimiter=",", ndmin=2)


class People:
    def __init__(self, folder, model, out):
        self.out = out
        with open(os.path.join(folder, "task.json")) as f:
            self.task = json.load(f)
        numbered = table(os.path.join(folder, "people.csv"))
        self.rows, self.x = numbered[:, 0].astype(int), numbered[:, 1:]
        self.train = table(os.path.join(folder, "train.csv"))
        self.features, at = [], 0
        linked = {name for link in self.task.get("links") or [] for name in (link["from"], link["to"])}
        for spec in self.task["features"]:
            width = len(spec["values"]) if spec["kind"] == "onehot" else 1
            f = SimpleNamespace(name=spec["name"], kind=spec["kind"], at=slice(at, at + width), spec=spec)
            f.values = spec.get("values") if f.kind == "onehot" else [spec.get("zero"), spec.get("one")]
            f.mean, f.std = spec.get("mean", 0), spec.get("std", 1)
            # No tool but cfq knows of features that follow others: these stay as they are.
            f.free = spec["actionable"] and f.name not in linked
            f.numeric = f.kind in ("numeric", "ordinal")
            self.features.append(f)
            at += width
        self.session = ort.InferenceSession(model)
        self.model = model

    def logits(self, x):
        return self.session.run(None, {self.session.get_inputs()[0].name: np.asarray(x, np.float32)})[0]

    def probabilities(self, x):
        z = self.logits(x)
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def approved(self, x):
        z = self.logits(x)
        return z[:, 1] > z[:, 0]

    def columns(self):
        """Of each model input: its name, and scale and shift, with which it is raw = input * scale + shift."""
        names, scale, shift = [], [], []
        for f in self.features:
            width = f.at.stop - f.at.start
            names += [f.name] if width == 1 else [f"{f.name}={v}" for v in f.values]
            scale += [f.std if f.numeric else 1] * width
            shift += [f.mean if f.numeric else 0] * width
        return names, np.array(scale), np.array(shift)

    def raw(self, f, point):
        """A number in raw units; what float32 adds is rounded off."""
        value = point[f.at][0] * f.std + f.mean
        return 0.0 if abs(value) < 1e-5 * f.std else float(f"{value:.6g}")

    def encode(self, f, raw):
        return (raw - f.mean) / f.std

    def bounds(self, f, x):
        """The raw numbers that a person may move to: their own is always among them."""
        own = self.raw(f, x)
        if not f.free:
            return own, own
        low, high = (b if b is not None else own for b in f.spec["bounds"])
        direction = f.spec["direction"]
        return (own if direction == "increase" else min(low, own)), (own if direction == "decrease" else max(high, own))

    def value(self, f, point):
        """A value of a one-hot or binary feature."""
        block = point[f.at]
        if f.kind == "binary":
            return f.values[int(block[0] > 0.5)]
        return f.values[int(block.argmax())] if block.max() > 0 else UNSET

    def allowed(self, f, x):
        """The values that a person may switch to, and their own."""
        own = self.value(f, x)
        if not f.free:
            return [own]
        after = f.spec.get("transitions")
        return list(dict.fromkeys([own] + (f.values if after is None else after.get(own, []))))

    def write(self, points):
        """Writes a point, or None, for each person."""
        missing = (self.task["data"].get("missing") or [""])[0]
        with open(self.out, "w", newline="") as file:
            to = csv.writer(file)
            to.writerow(["row"] + [f.spec["column"] for f in self.features])
            for row, own, point in zip(self.rows, self.x, points):
                if point is not None and np.isfinite(point).all():
                    cells = [self.cell(f, own, np.asarray(point, float)) for f in self.features]
                    to.writerow([row] + [missing if c == UNSET else c for c in cells])

    def cell(self, f, own, point):
        if not f.numeric:
            return self.value(f, own if np.allclose(own[f.at], point[f.at], atol=1e-6) else point)
        have, step = self.raw(f, own), f.spec.get("step")
        change = point[f.at][0] * f.std + f.mean - have
        if math.isclose(change, 0, abs_tol=1e-4 * f.std):
            change = 0
        elif step:
            change = round(change / step) * step
        return f"{have + change:.9g}"


def layers(model):
    """Weights and biases of a network of Gemm and Relu, for tools that need gradients or coefficients."""
    import onnx
    from onnx import numpy_helper
    graph = onnx.load(model).graph
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    found = []
    for node in graph.node:
        if node.op_type == "Gemm":
            w = stored[node.input[1]]
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            found.append((w.T if transposed else w, stored[node.input[2]]))
        elif node.op_type != "Relu":
            raise ValueError(f"{model} has a {node.op_type}")
    return found


def main(answer):
    """Runs an adapter: FOLDER MODEL OUTPUT [METHOD]."""
    folder, model, out, *method = sys.argv[1:]
    people = People(folder, model, out)
    people.write(answer(people, *method))
