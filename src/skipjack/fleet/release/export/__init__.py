"""Files for other programs: find-dbs, perf-dbs and kernel-dbs, with a manifest."""
