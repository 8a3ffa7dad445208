"""From finished jobs to files that ship: results of labels, exports, comparisons, promotions."""
