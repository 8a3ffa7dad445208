"""Problems and jobs: added, listed, moved from state to state, aborted, reset."""

__all__ = [
    "aborts",
    "copied_rankings",
    "facts",
    "job_counts",
    "job_history",
    "jobs",
    "problem_list",
    "problems",
    "transitions",
]
