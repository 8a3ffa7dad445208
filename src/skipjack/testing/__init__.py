"""Fakes and conformance kits, for our own tests and for yours.

Subclass `skipjack.testing.searchers.SearcherConformance` in a test file to check a searcher of your
own, and `skipjack.testing.solvers.SolverConformance` for a solver.
`skipjack.testing.surface.CostSurface` stands in for a device. `skipjack.testing.fake_tuning`
has solvers, builders and a context that let the whole engine run without device, compiler or files;
`skipjack.testing.sessions` the session and the clock under them.
"""
