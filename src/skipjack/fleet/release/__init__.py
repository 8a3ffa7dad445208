"""From finished jobs to files that ship: results of a label, exports, comparisons, promotion."""
