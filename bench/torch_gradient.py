"""Time of gradients by the inputs in PyTorch, for comparison with BenchmarkGradientRatio of package classifier.

The same three networks on 256 rows and one thread: median times of the logits, and of the gradient of the cross-entropy
by the inputs, in turns. Needs torch; nothing else of the project uses Python.

    python bench/torch_gradient.py [eager|compile]
"""

import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
ROWS = 256


class Attention(nn.Module):
    """An FT-Transformer of 12 numbers, each a token of 64, with 8 heads and feed-forward layers of 128."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(12, 64) / 64), nn.Parameter(torch.randn(12, 64) / 64)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(64), "qkv": nn.Linear(64, 192), "out": nn.Linear(64, 64), "then": nn.LayerNorm(64),
            "wide": nn.Linear(64, 128), "narrow": nn.Linear(128, 64),
        }) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 2)

    def forward(self, x):
        at = x[:, :, None] * self.weight + self.bias
        for b in self.blocks:
            q, k, v = (part.reshape(-1, 12, 8, 8).transpose(1, 2) for part in b["qkv"](b["before"](at)).chunk(3, -1))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 12, 64)
            at = at + b["out"](mixed)
            at = at + b["narrow"](b["wide"](b["then"](at)).relu())
        return self.head(self.norm(at.mean(1)))


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "eager"
    convolutions = [nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
                    nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 7 * 7, 10)]
    dense = [nn.Linear(104, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2)]
    for name, net, shape in [("mlp", nn.Sequential(*dense), (104,)), ("cnn", nn.Sequential(*convolutions), (1, 28, 28)),
                             ("transformer", Attention(), (12,))]:
        net.eval().requires_grad_(False)
        if kind == "compile":
            net = torch.compile(net)
        people, wanted = torch.randn(ROWS, *shape), torch.ones(ROWS, dtype=torch.long)

        def forward():
            with torch.no_grad():
                return net(people)

        def gradient():
            x = people.clone().requires_grad_(True)
            loss = nn.functional.cross_entropy(net(x), wanted, reduction="sum")
            return torch.autograd.grad(loss, x)[0]

        times = {forward: [], gradient: []}
        for _ in range(100):
            for run, took in times.items():
                begun = time.perf_counter()
                run()
                took.append(time.perf_counter() - begun)
        first, second = (1e6 * sorted(took)[50] for took in times.values())
        print(f"{kind} {name}: forward {first:.0f} us, with gradient {second:.0f} us, {second / first:.2f} times")


main()
