"""Fakes and conformance kits, for Skipjack's tests and for those of plug-ins.

A conformance kit is a class with tests, which you subclass in a test file: `SearcherConformance` of
`skipjack.testing.searchers` for a searcher, `SolverConformance` of `solvers` for a solver,
`EvaluatorConformance` of `evaluators`, `EngineConformance` of `fleet.engines` for an engine of the
fleet, and `StoreConformance` of `fleet.stores` for a database of the fleet's store.

`skipjack.testing.spaces.CostSurface` replaces a device. `skipjack.testing.fake_tuning` has
solvers, builders and a context with which a complete tuning runs without a device, a compiler or
files; `skipjack.testing.sessions` has the session and the clock that they use.
"""
