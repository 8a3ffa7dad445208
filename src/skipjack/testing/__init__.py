"""Fakes and conformance kits, for our own tests and for yours.

A conformance kit is a class with tests. Subclass it in a test file of yours: `SearcherConformance`
of `skipjack.testing.searchers` for a searcher, `SolverConformance` of `solvers` for a solver,
`EvaluatorConformance` of `evaluators`, `EngineConformance` of `fleet.engines` for where the fleet's
workers are, and `StoreConformance` of `fleet.stores` for a database of the fleet's store.
`skipjack.testing.surface.CostSurface` stands in for a device. `skipjack.testing.fake_tuning`
has solvers, builders and a context that let the whole engine run without device, compiler or files;
`skipjack.testing.sessions` the session and the clock under them.
"""
