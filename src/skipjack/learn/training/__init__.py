"""Training policies: PPO, DQN and cloning with torch; and episodes, which need no torch."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.training.collector import (
        EpisodeRequest,
        Group,
        InProcessCollector,
        Purpose,
        generator,
        groups,
        play_group,
    )
    from skipjack.learn.training.dqn import DQN, DQNOptions
    from skipjack.learn.training.episodes import (
        Episode,
        Player,
        packed,
        packed_arrays,
        unpacked,
        unpacked_arrays,
    )
    from skipjack.learn.training.network import (
        Batch,
        LoopBody,
        NetworkSizes,
        exported,
        imported,
        sizes_of,
    )
    from skipjack.learn.training.ppo import PPO, PPOOptions
    from skipjack.learn.training.trainer import Trainer, torch_seed

__all__ = [
    "DQN",
    "PPO",
    "Batch",
    "DQNOptions",
    "Episode",
    "EpisodeRequest",
    "Group",
    "InProcessCollector",
    "LoopBody",
    "NetworkSizes",
    "PPOOptions",
    "Player",
    "Purpose",
    "Trainer",
    "exported",
    "generator",
    "groups",
    "imported",
    "packed",
    "packed_arrays",
    "play_group",
    "sizes_of",
    "torch_seed",
    "unpacked",
    "unpacked_arrays",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "collector": "EpisodeRequest Group InProcessCollector Purpose generator groups play_group",
        "dqn": "DQN DQNOptions",
        "episodes": "Episode Player packed packed_arrays unpacked unpacked_arrays",
        "network": "Batch LoopBody NetworkSizes exported imported sizes_of",
        "ppo": "PPO PPOOptions",
        "trainer": "Trainer torch_seed",
    },
)
