"""PyTorch's basic training script for MNIST in form, with made-up digits: nothing is downloaded.

It knows nothing of Skipjack. Run it as ``python examples/pytorch/mnist.py``, and with tuned kernels
as ``skipjack exec --policy incremental --seconds 2 -- python examples/pytorch/mnist.py``.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

DIGITS, SIDE = 10, 28


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logarithms of the digits' probabilities."""
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = self.dropout1(functional.max_pool2d(x, 2))
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        return functional.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def made_up(count: int, seed: int) -> TensorDataset:
    """Ten shapes of a few strokes, each moved by some pixels and covered with noise."""
    strokes = torch.rand(DIGITS, 1, 7, 7, generator=torch.Generator().manual_seed(0)) > 0.6
    shapes = functional.interpolate(strokes.float(), size=(20, 20))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(DIGITS, (count,), generator=generator)
    pictures = 0.3 * torch.randn(count, 1, SIDE, SIDE, generator=generator)
    places = torch.randint(SIDE - 20, (count, 2), generator=generator).tolist()
    for picture, label, (row, column) in zip(pictures, labels, places, strict=True):
        picture[:, row : row + 20, column : column + 20] += shapes[label]
    return TensorDataset(pictures, labels)


def train(
    model: nn.Module, device: torch.device, loader: DataLoader, optimizer: optim.Optimizer
) -> float:
    """One epoch; the last batch's loss."""
    model.train()
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = functional.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
    return loss.item()


def test(model: nn.Module, device: torch.device, loader: DataLoader) -> tuple[float, float]:
    """The mean loss, and which part of the pictures is named rightly."""
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += functional.nll_loss(output, target, reduction="sum").item()
            right += int((output.argmax(dim=1) == target).sum())
            count += len(target)
    return loss / count, right / count


def main() -> None:
    """Train for some epochs and say how well the digits are told apart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--test-batch-size", type=int, default=512)
    parser.add_argument("--samples", type=int, default=640, help="pictures to train with")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="also where there is a GPU")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    gpu = torch.cuda.is_available() and not args.cpu
    device = torch.device("cuda" if gpu else "cpu")
    training = DataLoader(made_up(args.samples, 1), args.batch_size, shuffle=True, drop_last=True)
    testing = DataLoader(made_up(args.test_batch_size, 2), args.test_batch_size)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        started = time.perf_counter()
        last = train(model, device, training, optimizer)
        seconds = time.perf_counter() - started
        loss, accuracy = test(model, device, testing)
        scheduler.step()
        print(
            f"epoch {epoch}: {seconds:.2f} s, training loss {last:.4f}, "
            f"test loss {loss:.4f}, {accuracy:.1%} right",
            flush=True,
        )


if __name__ == "__main__":
    main()
