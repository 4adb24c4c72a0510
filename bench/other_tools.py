"""Files of other tools for one model, and what cfq says of each: layers, bits, bytes, VD, RVD, verdict.

ONNX Runtime's quantizer (QDQ, also with 7 bits and in com.microsoft operators, QOperator, 16-bit activations, A8W4,
dynamic INT8, MatMulNBits with 4 and 8 bits), NNCF, AIMET, onnx-neural-compressor and neural-compressor. Needs numpy,
onnx and onnxruntime, and for their rows the others.
Calibration rows are the first 512 rows of the data, encoded by the file that `cfq task init --encoding` reads
(numeric features only).

    python bench/other_tools.py CFQ MODEL ENCODING TRAIN TEST TASK DIRECTORY

With --write it only writes the files of some forms, calibrated on a table of model inputs, and prints what the tools
call themselves: `make compare` measures those.

    python bench/other_tools.py --write MODEL ROWS DIRECTORY FORM...
"""

import contextlib
import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from importlib import metadata

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

WRITE = sys.argv[1] == "--write"
if WRITE:
    MODEL, TABLE, OUT, *SELECTED = sys.argv[2:]
else:
    CFQ, MODEL, ENCODING, TRAIN, TEST, TASK, OUT = sys.argv[1:]
INPUT = onnx.load(MODEL).graph.input[0].name


def rows(path, count):
    with open(ENCODING) as f:
        features = json.load(f)["features"]
    with open(path) as f:
        table = list(csv.DictReader(f))[:count]
    return np.array([[(float(r[f["column"]]) - f["mean"]) / f["std"] for f in features] for r in table], np.float32)


X = np.loadtxt(TABLE, np.float32, delimiter=",", ndmin=2) if WRITE else rows(TRAIN, 512)


class Reader(CalibrationDataReader):
    def __init__(self):
        self.batches = iter([{INPUT: X[k:k + 64]} for k in range(0, len(X), 64)])

    def get_next(self):
        return next(self.batches, None)


def static(**options):
    return lambda path: quantize_static(MODEL, path, Reader(), **options)


def with_matmul():
    """The model with MatMul and Add for each Gemm, as MatMulNBits needs."""
    model = onnx.load(MODEL)
    graph, nodes = model.graph, []
    weights = {t.name: t for t in graph.initializer}
    for n in graph.node:
        if n.op_type != "Gemm":
            nodes.append(n)
            continue
        w = numpy_helper.to_array(weights[n.input[1]])
        if any(a.name == "transB" and a.i for a in n.attribute):
            w = w.T.copy()
        graph.initializer.append(numpy_helper.from_array(w, n.input[1] + "_T"))
        product = n.output[0] + "_product"
        nodes.append(helper.make_node("MatMul", [n.input[0], n.input[1] + "_T"], [product], name=n.name + "_MatMul"))
        nodes.append(helper.make_node("Add", [product, n.input[2]], [n.output[0]], name=n.name + "_Add"))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for n in nodes for name in n.input}
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return model


def nbits(bits, **options):
    def write(path):
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        q = MatMulNBitsQuantizer(with_matmul(), bits=bits, block_size=16, **options)
        q.process()
        q.model.save_model_to_file(path)
    return write


def nncf_static(path):
    import nncf
    batches = [{INPUT: X[k:k + 64]} for k in range(0, len(X), 64)]  # the mean of their ranges: single rows clip too much
    onnx.save(nncf.quantize(onnx.load(MODEL), nncf.Dataset(batches), subset_size=len(batches),
                            preset=nncf.QuantizationPreset.MIXED), path)


def nncf_weights(mode, **options):
    def write(path):
        import nncf
        model = onnx.load(MODEL)
        if "INT4" in mode:
            model = onnx.version_converter.convert_version(model, 21)
        onnx.save(nncf.compress_weights(model, mode=getattr(nncf.CompressWeightsMode, mode), **options), path)
    return write


def aimet(weights, activations):
    def write(path):
        import aimet_onnx
        sim = aimet_onnx.QuantizationSimModel(onnx.load(MODEL), param_type=getattr(aimet_onnx, weights),
                                              activation_type=getattr(aimet_onnx, activations))
        sim.compute_encodings([{INPUT: X[k:k + 64]} for k in range(0, len(X), 64)])
        onnx.save(sim.to_onnx_qdq(), path)
    return write


def onnx_neural_compressor(path):
    from onnx_neural_compressor import data_reader
    from onnx_neural_compressor.quantization import config, quantize

    class Rows(data_reader.CalibrationDataReader):
        def __init__(self):
            self.rewind()

        def get_next(self):
            return next(self.batches, None)

        def rewind(self):
            self.batches = iter([{INPUT: X[k:k + 64]} for k in range(0, len(X), 64)])

    quantize(MODEL, path, config.StaticQuantConfig(Rows(), quant_format=QuantFormat.QDQ, per_channel=True,
                                                   calibration_sampling_size=len(X)))
    onnx.save(onnx.load(path), path)  # one file, as of the others
    os.remove(path + "_data")


def neural_compressor(path):
    from neural_compressor import PostTrainingQuantConfig, quantization, set_workspace

    set_workspace(tempfile.mkdtemp())
    class Batches:
        batch_size = 64

        def __iter__(self):
            return iter([(X[k:k + 64], 0) for k in range(0, len(X), 64)])

    quantization.fit(MODEL, PostTrainingQuantConfig(quant_format="QDQ", calibration_sampling_size=len(X)),
                     calib_dataloader=Batches()).save(path)


FORMS = {
    "ort-qdq": static(),
    "ort-qdq-per-channel": static(per_channel=True, weight_type=QuantType.QInt8),
    "ort-qdq-reduced": static(per_channel=True, weight_type=QuantType.QInt8, reduce_range=True),
    "ort-qdq-contrib": static(extra_options={"UseQDQContribOps": True}),
    "ort-qoperator": static(quant_format=QuantFormat.QOperator),
    "ort-a16w8": static(activation_type=QuantType.QUInt16, weight_type=QuantType.QInt8),
    "ort-a8w4": static(activation_type=QuantType.QUInt8, weight_type=QuantType.QInt4),
    "ort-a16w4": static(activation_type=QuantType.QUInt16, weight_type=QuantType.QInt4),
    "ort-dynamic": lambda path: quantize_dynamic(MODEL, path),
    "ort-nbits-4": nbits(4, is_symmetric=True),
    "ort-nbits-4-zero-points": nbits(4, is_symmetric=False),
    "ort-nbits-8": nbits(8, is_symmetric=True),
    "nncf-int8": nncf_static,
    "nncf-weights-int8": nncf_weights("INT8_ASYM"),
    "nncf-weights-int4": nncf_weights("INT4_SYM", ratio=1.0, group_size=-1, all_layers=True),
    "onnx-neural-compressor": onnx_neural_compressor,
    "neural-compressor": neural_compressor,
    "aimet-w8a8": aimet("int8", "int8"),
    "aimet-w8a16": aimet("int8", "int16"),
    "aimet-w4a8": aimet("int4", "int8"),
}


def cfq(*args):
    done = subprocess.run([CFQ, *args, "--json"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(done.stderr.strip()[:300]) from None


def percent(rate):
    return "-" if not rate["den"] else f"{100 * rate['num'] / rate['den']:.1f} %"


def write_only():
    for name in SELECTED:
        with contextlib.redirect_stdout(sys.stderr):  # progress bars
            FORMS[name](os.path.join(OUT, name + ".onnx"))
    tools = ["onnxruntime", "nncf"]
    print(", ".join(f"{t} {metadata.version(t)}" for t in tools if importlib.util.find_spec(t)))


def main():
    os.makedirs(OUT, exist_ok=True)
    print(f"{'file':24} {'layers':>6} {'bits':>5} {'weights':>8} {'file':>7} {'VD':>7} {'RVD':>7}  gate --max-vd 0.1")
    for name, write in FORMS.items():
        path = os.path.join(OUT, name + ".onnx")
        try:
            with contextlib.redirect_stdout(sys.stderr):  # progress bars
                write(path)
            ort.InferenceSession(path).run(None, {INPUT: X[:5]})
            people = [MODEL, path, "-d", TEST, "-t", TASK]
            seen, found = cfq("inspect", path), cfq("eval", *people, "--margins", "0.1")
            verdict = cfq("gate", *people, "--max-vd", "0.1", "--again")["gate"]["verdict"]
        except Exception as e:  # one tool that fails must not hide the others
            print(f"{name:24} {type(e).__name__}: {' '.join(str(e).split())[:200]}")
            continue
        at = found["result"]["margins"][0]
        print(f"{name:24} {len(seen['layers']):6} {seen['stored_bits_per_weight']:5.2f} {seen.get('stored_bytes', 0):8} "
              f"{seen['bytes']:7} {percent(at['vd']):>7} {percent(at['rvd']):>7}  {verdict}")


if __name__ == "__main__":
    write_only() if WRITE else main()
