"""Train a loan classifier in PyTorch and export it to ONNX.

The only step of the walk-through that needs Python (torch, onnx, onnxscript). It reads
train.csv with the standard library, so that the encoding is in plain sight, and writes
the encoding down as encoding.json, beside the model, for `cfq task init`.

    python train.py ../../testdata/loans/train.csv model.onnx
"""
import csv
import json
import os
import sys

import onnx
import torch

CATEGORIES = {
    "sex": ["male", "female"],
    "employment": ["salaried", "public", "self-employed", "part-time", "unemployed"],
    "housing": ["own", "rent", "family"],
    "guarantor": ["no", "yes"],
}


def encode(rows):
    """Numbers standardised, two values as 0 and 1, more as one-hot, in the order of the columns; and what was done."""
    columns, features = [], []
    for name in rows[0]:
        values = [row[name] for row in rows]
        known = CATEGORIES.get(name)
        if name == "decision":
            continue
        if known is None:
            v = torch.tensor([float(x) for x in values], dtype=torch.float64)
            mean, std = v.mean(), v.std(correction=0)
            columns.append((v - mean) / std)
            features.append({"column": name, "kind": "numeric", "mean": mean.item(), "std": std.item()})
        elif len(known) == 2:
            columns.append(torch.tensor([float(x == known[1]) for x in values], dtype=torch.float64))
            features.append({"column": name, "kind": "binary", "one": known[1], "zero": known[0]})
        else:
            columns += [torch.tensor([float(x == k) for x in values], dtype=torch.float64) for k in known]
            features.append({"column": name, "kind": "onehot", "values": known})
    x = torch.stack(columns, 1).float()
    y = torch.tensor([int(row["decision"] == "approved") for row in rows])
    return x, y, {"target": "favourable = 1", "features": features}


def main(data, out):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with open(data, newline="") as file:
        rows = list(csv.DictReader(file))
    x, y, encoding = encode(rows)
    with open(os.path.join(os.path.dirname(out), "encoding.json"), "w") as file:
        json.dump(encoding, file, indent=1)
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], 64), torch.nn.ReLU(),
        torch.nn.Linear(64, 32), torch.nn.ReLU(),
        torch.nn.Linear(32, 2),
    )
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-4)
    for _ in range(8):
        for batch in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            opt.step()
    net.eval()
    right = (net(x).argmax(1) == y).float().mean().item()
    print(f"{len(x)} rows, {x.shape[1]} inputs, {100 * right:.1f} % decided as they turned out")
    with open(os.path.join(os.path.dirname(out), "scores.csv"), "w") as file:
        print("refused,approved", *(f"{a:.6f},{b:.6f}" for a, b in net(x[:100]).tolist()), sep="\n", file=file)
    torch.onnx.export(net, (x[:2],), out, input_names=["features"], output_names=["logits"],
                      dynamic_shapes=({0: torch.export.Dim("batch")},), opset_version=21, external_data=False, verbose=False)
    strip(out)
    print("written to", out)


def strip(path):
    """Take out the stack traces that the exporter leaves in every node: paths of this machine, and a third of the file."""
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
