"""Train an FT-Transformer on raw numbers and numbered categories, and export it to ONNX.

Each column becomes a token, a layer of attention relates them, and a token of its own collects what decides.

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


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width))

    def forward(self, x):
        h = self.norms[0](x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.feed(self.norms[1](x))


class Network(nn.Module):
    def __init__(self, mean, std, width=8, heads=2, layers=1):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        sizes = [len(values) for values in CATEGORIES.values()]
        self.weight = nn.Parameter(torch.randn(len(NUMBERS), width) / width ** 0.5)
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.bias = nn.Parameter(torch.zeros(len(NUMBERS) + len(sizes), width))
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.last = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, numbers, categories):
        numbers = ((numbers - self.mean) / self.std).unsqueeze(-1) * self.weight
        embedded = [table(categories[:, i:i + 1]) for i, table in enumerate(self.tables)]
        tokens = torch.cat([numbers, *embedded], 1) + self.bias
        tokens = torch.cat([self.token.expand(tokens.shape[0], -1, -1), tokens], 1)
        return self.last(self.layers(tokens)[:, 0])


def main(data, out):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, c, y = read(data)
    net = Network(x.mean(0), x.std(0))
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)
    for _ in range(12):
        for batch in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x[batch], c[batch]), y[batch]).backward()
            opt.step()
    net.eval()  # without dropout
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
