#!/bin/sh
# sh tests/gpu/run.sh BUNDLE [--rehearse]: unpacks what tests/gpu/bundle.py made and runs the check with it.
set -eu
bundle=$1
shift
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Where xz is missing, Python's own does it.
tar -xJf "$bundle" -C "$place" 2>/dev/null ||
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$bundle" "$place"
root=$place/bundle
python=$(ls "$root"/python/bin/python3.*)
mkdir -p "$root/venv/bin"
for name in python python3 "$(basename "$python")"; do ln -sf "$python" "$root/venv/bin/$name"; done
printf 'home = %s/python/bin\ninclude-system-site-packages = false\n' "$root" >"$root/venv/pyvenv.cfg"
LD_LIBRARY_PATH=$root/python/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Containers get the driver's libraries in places that the loader need not know.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib; do
    if [ -d "$folder" ]; then LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder; fi
done
export LD_LIBRARY_PATH TRITONSCOPE_TRITON_VENV="$root/venv" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
unset PYTHONPATH PYTHONHOME
status=0
"$root/venv/bin/python" -m tests.gpu.check "$@" || status=$?
exit $status
