#!/usr/bin/env bash
# Starts tritonserver in docker-compose.yml: the models of TRITON_LOAD_MODELS, the write APIs behind a key.
#
#   TRITON_MODELS        the model repository (default: /models)
#   TRITON_LOAD_MODELS   names to load at the start, separated by commas or spaces; may be empty
#   TRITON_ADMIN_KEY     value of the header `tritonscope-key` that model-repository, trace and logging ask for
#   TRITON_GPU_METRICS   true or false: whether Triton reads the GPUs itself (false beside a dcgm-exporter)
#   TRITON_ARGUMENTS     further arguments, separated by spaces
#   TRITON_PROGRAM       the binary (default: tritonserver); arguments of this script go to it as they are
set -euo pipefail

refuse() {
    echo "triton_server.sh: $1" >&2
    exit 2
}

key=${TRITON_ADMIN_KEY:-}
# Triton splits the flag at ":" and "=", and a short key can be guessed.
[[ $key =~ ^[A-Za-z0-9._~-]{16,}$ ]] ||
    refuse "TRITON_ADMIN_KEY must be at least 16 letters, digits or ._~- characters; set it in .env"

models=${TRITON_LOAD_MODELS:-}
load=()
# No pathname expansion, or "*" would become the names of files.
set -f
for name in ${models//,/ }; do
    [[ $name != '*' ]] ||
        refuse "TRITON_LOAD_MODELS must name the models one by one: * would load whatever is in the repository"
    [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] ||
        refuse "TRITON_LOAD_MODELS: '$name' is not a model name (letters, digits, dot, dash, underscore)"
    load+=("--load-model=$name")
done
read -r -a further <<<"${TRITON_ARGUMENTS:-}"
set +f

# The restriction is needed on both protocols: gRPC offers the same calls. One --backend-config per pair: joined
# by a comma they are silently ignored.
exec "${TRITON_PROGRAM:-tritonserver}" \
    --model-repository="${TRITON_MODELS:-/models}" \
    --model-control-mode=explicit \
    --exit-on-error=false \
    "${load[@]}" \
    --http-restricted-api="model-repository,trace,logging:tritonscope-key=$key" \
    --grpc-restricted-protocol="model-repository,trace,logging:tritonscope-key=$key" \
    --backend-config=onnxruntime,triton-backend-memory-tracker=true \
    --backend-config=tensorrt,triton-backend-memory-tracker=true \
    --allow-gpu-metrics="${TRITON_GPU_METRICS:-true}" \
    --metrics-interval-ms=1000 \
    --metrics-config=summary_latencies=true \
    --metrics-config=histogram_latencies=true \
    "${further[@]}" \
    "$@"
