"""Problems, labels and jobs: made, listed, moved from state to state, stopped, started over."""
