"""Train a PyTorch classifier with embeddings on raw numbers and numbered categories, and export it to ONNX.

The only step of the example that needs Python (torch, onnx, onnxscript).

    python train.py ../../testdata/loans/train.csv model.onnx
"""
import csv
import os
import sys

import onnx
import torch
from torch import nn

NUMBERS = ["age", "dependants", "income", "savings", "debt", "amount", "months", "credit_grade", "years_employed",
           "late_payments"]
CATEGORIES = {  # a category is its place in the list; alphabetical order is what `cfq task init` assumes
    "sex": ["female", "male"],
    "employment": ["part-time", "public", "salaried", "self-employed", "unemployed"],
    "housing": ["family", "own", "rent"],
    "guarantor": ["no", "yes"],
}


def read(path):
    """The numbers and the codes of the categories as the file has them, and whether the loan was approved."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = torch.tensor([[float(row[name]) for name in NUMBERS] for row in rows])
    codes = torch.tensor([[values.index(row[name]) for name, values in CATEGORIES.items()] for row in rows])
    return numbers, codes, torch.tensor([int(row["decision"] == "approved") for row in rows])


class Block(nn.Module):
    """A residual block, with the batch normalization and the dropout that training needs."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
                                   nn.Linear(width, width))

    def forward(self, x):
        return x + self.inner(x)


class Network(nn.Module):
    def __init__(self, mean, std, width=32):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.tables = nn.ModuleList(nn.Embedding(len(values), 3) for values in CATEGORIES.values())
        self.first = nn.Linear(len(NUMBERS) + 3 * len(CATEGORIES), width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.last = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, numbers, categories):
        embedded = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        x = torch.cat([(numbers - self.mean) / self.std, *embedded], 1)
        return self.last(self.blocks(self.first(x)))


def main(data, out):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, c, y = read(data)
    net = Network(x.mean(0), x.std(0))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    for _ in range(6):
        for batch in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x[batch], c[batch]), y[batch]).backward()
            opt.step()
    net.eval()  # batch normalization and dropout as they are when the model is used
    right = (net(x, c).argmax(1) == y).float().mean().item()
    print(f"{len(x)} rows, {len(NUMBERS)} numbers and {len(CATEGORIES)} categories, {100 * right:.1f} % decided as they "
          "turned out")
    with open(os.path.join(os.path.dirname(out), "scores.csv"), "w") as file:  # for `cfq task check --scores`
        print("refused,approved", *(f"{a:.6f},{b:.6f}" for a, b in net(x[:100], c[:100]).tolist()), sep="\n", file=file)
    batch = torch.export.Dim("batch")
    torch.onnx.export(net, (x[:2], c[:2]), out, input_names=["numbers", "categories"], output_names=["logits"],
                      dynamic_shapes=({0: batch}, {0: batch}), opset_version=20, external_data=False, verbose=False)
    strip(out)
    print("written to", out)


def strip(path):
    """Take out the stack traces that the exporter leaves in every node: paths of this machine."""
    model = onnx.load(path)
    for part in [*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info, model.graph]:
        del part.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
