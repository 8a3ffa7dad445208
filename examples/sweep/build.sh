#!/bin/sh
# Stands for a build of an engine: what it depends on is written into it, and the run looks.
set -eu
place=${SKIPJACK_BUILD_DIR:-out}
mkdir -p "$place"
echo "gpu_batch_size=$gpu_batch_size" > "$place/engine"
