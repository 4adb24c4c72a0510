"""Time of one training step in PyTorch, for comparison with BenchmarkStep of package qat.

The same step as its case "lsq": 104-64-32-2 network, 256 rows drawn of 4,096, learned step sizes per output channel at
4 bits on all weights, cross-entropy, Adam over weights, scales and biases, one thread. Needs torch; nothing else of the
project uses Python.

    python bench/torch_step.py [eager|compile]
"""

import sys
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(1)


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Layer(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(0.1 * torch.randn(outputs, inputs))
        self.bias = torch.nn.Parameter(torch.zeros(outputs))
        self.log_scale = torch.nn.Parameter(torch.full((outputs, 1), -4.0))

    def forward(self, x):
        scale = self.log_scale.exp()
        codes = Round.apply((self.weight / scale).clamp(-8, 7))
        return torch.nn.functional.linear(x, codes * scale, self.bias)


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "eager"
    net = torch.nn.Sequential(Layer(104, 64), torch.nn.ReLU(), Layer(64, 32), torch.nn.ReLU(), Layer(32, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    people, labels = torch.randn(4096, 104), torch.randint(2, (4096,))

    def loss_of(x, label):
        return torch.nn.functional.cross_entropy(net(x), label)

    if kind == "compile":
        loss_of = torch.compile(loss_of)

    def step():
        drawn = torch.randint(4096, (256,))
        optimizer.zero_grad(set_to_none=True)
        loss_of(people[drawn], labels[drawn]).backward()
        optimizer.step()

    for _ in range(200):
        step()
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(100):
            step()
        times.append((time.perf_counter() - begun) / 100)
    print(f"{kind}: {1e6 * sorted(times)[10]:.0f} us a step")


main()
