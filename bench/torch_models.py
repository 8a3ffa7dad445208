"""Steps of the benchmarks' networks: made-up data, forward and training with SGD."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

import torch_networks as networks

FORWARD, TRAIN = "fwd", "train"
MODES = (FORWARD, TRAIN)
CONVOLUTIONAL, OTHER = "convolutional", "other"
DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
_VOCABULARY = 8192
"""GPT-2's widths but not its 50,257 words: with those, one step of 16 texts needs 2 GB for them."""
_SMALL_VOCABULARY = 256


@dataclass(frozen=True, slots=True)
class Place:
    """Where and in what a network computes."""

    device: str = "cpu"
    dtype: str = "f32"

    def synchronize(self) -> None:
        """Wait for what was submitted."""
        if self.device == "cuda":
            torch.cuda.synchronize()


Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Model:
    """A network, and how data for it are made up."""

    name: str
    kind: str
    """CONVOLUTIONAL or OTHER: the two have bars of their own."""
    build: Callable[[], nn.Module]
    draw: Callable[[int, torch.Generator], Batch]
    """Inputs and targets for a batch, the inputs in float64 or as whole numbers."""
    rate: float = 1e-4
    """Of learning; so small where steps are timed that a loss neither vanishes nor explodes."""

    def network(self, place: Place, seed: int = 0) -> nn.Module:
        """With weights that depend on the seed alone, whatever the place."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = self.build()
        return made.to(device=place.device, dtype=DTYPES[place.dtype])

    def batch(self, size: int, place: Place, seed: int = 0) -> Batch:
        """The same numbers whatever the place."""
        inputs, targets = self.draw(size, torch.Generator().manual_seed(seed))
        dtype = DTYPES[place.dtype] if inputs.is_floating_point() else inputs.dtype
        return inputs.to(place.device, dtype), targets.to(place.device)


def step_of(model: Model, mode: str, size: int, place: Place) -> Callable[[], Tensor]:
    """A forward pass without gradients, or a training step; gives its result or its loss."""
    network = model.network(place)
    inputs, targets = model.batch(size, place)
    if mode == FORWARD:
        network.eval()
        return lambda: forward(network, inputs)
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=model.rate)
    return lambda: train(network, optimizer, (inputs, targets))


def forward(network: nn.Module, inputs: Tensor) -> Tensor:
    """As a user asks a trained network."""
    with torch.no_grad():
        y: Tensor = network(inputs)
        return y


def train(network: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
    """One step; the loss before it, still on the device."""
    inputs, targets = batch
    optimizer.zero_grad()
    found = loss_of(network(inputs), targets)
    found.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return found.detach()


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy over the last dimension, whatever stands before it."""
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def images(side: int, classes: int) -> Callable[[int, torch.Generator], Batch]:
    """Noise around a pattern of each class, so that there is something to learn."""

    def draw(size: int, generator: torch.Generator) -> Batch:
        fixed = torch.Generator().manual_seed(classes)
        patterns = torch.randn(min(classes, 16), 3, 8, 8, generator=fixed, dtype=torch.float64)
        targets = torch.randint(classes, (size,), generator=generator)
        noise = torch.randn(size, 3, side, side, generator=generator, dtype=torch.float64)
        seen = functional.interpolate(patterns[targets % len(patterns)], size=(side, side))
        return noise + seen, targets

    return draw


def words(length: int, vocabulary: int, classes: int) -> Callable[[int, torch.Generator], Batch]:
    """Sentences, and for every word a class that follows from it and its neighbour."""

    def draw(size: int, generator: torch.Generator) -> Batch:
        drawn = torch.randint(vocabulary, (size, length), generator=generator)
        return drawn, (drawn + 3 * drawn.roll(1, dims=1)) % classes

    return draw


def _language(width: int, heads: int, layers: int, tokens: int, vocabulary: int) -> nn.Module:
    return networks.LanguageModel(width, heads, layers, tokens, vocabulary)


_IMAGES = images(networks.IMAGE, networks.CLASSES)
_LISTED = (
    Model("resnet50", CONVOLUTIONAL, networks.resnet50, _IMAGES),
    Model("mobilenet_v2", CONVOLUTIONAL, networks.mobilenet_v2, _IMAGES),
    Model("efficientnet_b0", CONVOLUTIONAL, networks.efficientnet_b0, _IMAGES),
    Model(
        "gpt2",
        OTHER,
        lambda: _language(768, 12, 12, 128, _VOCABULARY),
        words(128, _VOCABULARY, _VOCABULARY),
    ),
    Model("vit_small", OTHER, lambda: networks.VisionTransformer(384, 6, 12), _IMAGES),
    Model(
        "lstm_tagger",
        OTHER,
        lambda: networks.LstmTagger(10_000, 128, 256, 48),
        words(32, 10_000, 48),
    ),
)
MODELS: Mapping[str, Model] = {model.name: model for model in _LISTED}
"""Of the end-to-end benchmark."""
SMALL: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("small_cnn", CONVOLUTIONAL, networks.small_cnn, images(32, 10), rate=0.05),
        Model(
            "small_transformer",
            OTHER,
            lambda: _language(64, 4, 2, 32, _SMALL_VOCABULARY),
            words(32, _SMALL_VOCABULARY, _SMALL_VOCABULARY),
            rate=0.05,
        ),
    )
}
"""Of the benchmarks of overheads, losses and ranks."""
