"""The networks of the PyTorch benchmarks, written in plain PyTorch as a user writes them.

ResNet-50, MobileNet v2, EfficientNet-B0, a vision transformer, a transformer of GPT-2's widths, an
LSTM tagger; and a small CNN and a small transformer. Weights are drawn, not trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

IMAGE = 224
CLASSES = 1000
Activation = Callable[[], nn.Module]


def conv_block(
    inputs: int,
    outputs: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    activation: Activation | None = None,
) -> nn.Sequential:
    """A convolution with the batch normalization and the activation that follow it."""
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    after = [activation()] if activation else []
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *after)


def relu() -> nn.Module:
    return nn.ReLU(inplace=True)


def relu6() -> nn.Module:
    return nn.ReLU6(inplace=True)


def silu() -> nn.Module:
    return nn.SiLU(inplace=True)


class Residual(nn.Module):
    """What the body computes, added to what came in or to a projection of it."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut, self.after = body, shortcut, after

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.after(self.body(x) + self.shortcut(x))
        return y


def classifier(features: int, classes: int, dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(features, classes)
    )


def resnet50() -> nn.Sequential:
    """Bottlenecks with the stride in the 3x3 convolution."""
    layers: list[nn.Module] = [conv_block(3, 64, 7, 2, activation=relu), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for at in range(blocks):
            stride = first_stride if at == 0 else 1
            layers.append(_bottleneck(inputs, width, stride))
            inputs = 4 * width
    return nn.Sequential(*layers, classifier(inputs, CLASSES))


def _bottleneck(inputs: int, width: int, stride: int) -> Residual:
    body = nn.Sequential(
        conv_block(inputs, width, activation=relu),
        conv_block(width, width, 3, stride, activation=relu),
        conv_block(width, 4 * width),
    )
    same = inputs == 4 * width and stride == 1
    shortcut = nn.Identity() if same else conv_block(inputs, 4 * width, stride=stride)
    return Residual(body, shortcut, relu())


def mobilenet_v2() -> nn.Sequential:
    """Inverted residuals with linear bottlenecks."""
    plan = (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    )
    layers: list[nn.Module] = [conv_block(3, 32, 3, 2, activation=relu6)]
    inputs = 32
    for expand, outputs, blocks, first_stride in plan:
        for at in range(blocks):
            stride = first_stride if at == 0 else 1
            body = nn.Sequential(*_inverted(inputs, outputs, expand, 3, stride))
            layers.append(_kept_or_added(body, inputs, outputs, stride))
            inputs = outputs
    layers.append(conv_block(inputs, 1280, activation=relu6))
    return nn.Sequential(*layers, classifier(1280, CLASSES, 0.2))


def _inverted(inputs: int, outputs: int, expand: int, kernel: int, stride: int) -> list[nn.Module]:
    wide = inputs * expand
    first = [conv_block(inputs, wide, activation=relu6)] if expand > 1 else []
    depthwise = conv_block(wide, wide, kernel, stride, groups=wide, activation=relu6)
    return [*first, depthwise, conv_block(wide, outputs)]


def _kept_or_added(body: nn.Module, inputs: int, outputs: int, stride: int) -> nn.Module:
    if inputs == outputs and stride == 1:
        return Residual(body, nn.Identity(), nn.Identity())
    return body


class SqueezeExcite(nn.Module):
    """Channels weighted by what their means say."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(inplace=True),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x * self.weigh(x)
        return y


def efficientnet_b0() -> nn.Sequential:
    """MBConv blocks of 3x3 and 5x5 with squeeze and excite; no stochastic depth."""
    plan = (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    )
    layers: list[nn.Module] = [conv_block(3, 32, 3, 2, activation=silu)]
    inputs = 32
    for expand, outputs, blocks, first_stride, kernel in plan:
        for at in range(blocks):
            stride = first_stride if at == 0 else 1
            layers.append(_mbconv(inputs, outputs, expand, kernel, stride))
            inputs = outputs
    layers.append(conv_block(inputs, 1280, activation=silu))
    return nn.Sequential(*layers, classifier(1280, CLASSES, 0.2))


def _mbconv(inputs: int, outputs: int, expand: int, kernel: int, stride: int) -> nn.Module:
    wide = inputs * expand
    first = [conv_block(inputs, wide, activation=silu)] if expand > 1 else []
    body = nn.Sequential(
        *first,
        conv_block(wide, wide, kernel, stride, groups=wide, activation=silu),
        SqueezeExcite(wide, max(1, inputs // 4)),
        conv_block(wide, outputs),
    )
    return _kept_or_added(body, inputs, outputs, stride)


class Attention(nn.Module):
    """Heads side by side: two batched products and a softmax, or PyTorch's fused function."""

    def __init__(self, width: int, heads: int, *, causal: bool, fused: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.fused = heads, causal, fused
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            mixed = self._spelled_out(q, k, v)
        y: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return y

    def _spelled_out(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        if self.causal:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(ahead, float("-inf"))
        y: Tensor = scores.softmax(dim=-1) @ v
        return y


class TransformerBlock(nn.Module):
    """Attention and a perceptron, each after a layer norm."""

    def __init__(self, width: int, heads: int, *, causal: bool, fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=causal, fused=fused)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class LanguageModel(nn.Module):
    """GPT-2's structure, attention spelled out; what comes after each token."""

    def __init__(self, width: int, heads: int, layers: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        blocks = [TransformerBlock(width, heads, causal=True, fused=False) for _ in range(layers)]
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        y: Tensor = self.head(self.norm(self.blocks(self.words(tokens) + self.places(places))))
        return y


class VisionTransformer(nn.Module):
    """Patches of 16x16 and a class token; attention by PyTorch's fused function."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (IMAGE // 16) ** 2 + 1, width) * 0.02)
        blocks = [TransformerBlock(width, heads, causal=False, fused=True) for _ in range(layers)]
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        y: Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return y


class LstmTagger(nn.Module):
    """A tag for each word of a sentence: two layers in both directions, as ``nn.LSTM`` has them."""

    def __init__(self, vocabulary: int, width: int, hidden: int, tags: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, words: Tensor) -> Tensor:
        y: Tensor = self.tags(self.lstm(self.words(words))[0])
        return y


def small_cnn(widths: Sequence[int] = (16, 32, 64), classes: int = 10) -> nn.Sequential:
    """For images of 32x32."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip((3, *widths), widths, strict=False):
        layers += [conv_block(inputs, outputs, 3, activation=relu), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, classifier(widths[-1], classes))
