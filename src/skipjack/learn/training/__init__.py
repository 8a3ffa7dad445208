"""Training policies: PPO, DQN and Stable-Baselines3. Needs torch, which nothing else here does."""
