"""Training policies: PPO, DQN and cloning with torch; episodes, which are played without it."""
