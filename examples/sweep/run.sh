#!/bin/sh
# Stands for a benchmark: its rate grows with batches and streams until the buffer is too small,
# and a load above its rate is not held.
set -eu
place=${SKIPJACK_BUILD_DIR:-out}
grep -qx "gpu_batch_size=$gpu_batch_size" "$place/engine" || {
    echo "the engine was built for another batch" >&2
    exit 1
}
if [ $((dali_pipeline_depth * audio_batch_size)) -gt "$audio_buffer_num_lines" ]; then
    echo "audio buffer overrun" >&2
    exit 1
fi
audio=$((audio_batch_size * 2000 / (audio_batch_size + 200)))
gpu=$((gpu_batch_size * 3000 / (gpu_batch_size + 100)))
streams=$((100 + 20 * (gpu_inference_streams - 1)))
rate=$(((audio + gpu) * streams / 100))
validity=VALID
[ "$server_target_qps" -le "$rate" ] || validity=INVALID
mkdir -p out
printf '{"samples_per_second": %d, "result_validity": "%s"}\n' "$rate" "$validity" > out/result.json
