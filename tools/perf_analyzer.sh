#!/usr/bin/env bash
# NVIDIA's perf_analyzer 2.51 for the benchmark: lifted out of the tritonclient wheel that still carries it.
# It needs libb64 and libcudart, which pytriton's wheel bundles under other names. Nothing is installed.
set -eu
cd "$(dirname "$0")/.."
target=.tools/perf_analyzer
program=$target/perf_analyzer
sum=a8e3fa6d2fcd535770f18fa3c9baf21aee85697352637d24c6b2818401c95a34
if [ ! -x "$program" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --no-deps --dest "$work" tritonclient==2.51.0
    mkdir -p "$target"
    python3 - "$work" "$target" <<'PYTHON'
import sys, zipfile
from pathlib import Path

wheel = next(Path(sys.argv[1]).glob("*.whl"))
with zipfile.ZipFile(wheel) as archive:
    name = next(one for one in archive.namelist() if one.endswith("/bin/perf_analyzer"))
    Path(sys.argv[2], "perf_analyzer.new").write_bytes(archive.read(name))
PYTHON
    echo "$sum  $target/perf_analyzer.new" | sha256sum --check --quiet
    chmod +x "$target/perf_analyzer.new"
    mv "$target/perf_analyzer.new" "$program"
fi
for library in libcudart.so.12 libb64.so.0d; do
    [ -e "$target/$library" ] && continue
    stem=${library%%.so*}
    found=$(find .venv-triton/lib -path '*nvidia_pytriton.libs*' -name "$stem-*.so*" -print -quit)
    if [ -z "$found" ]; then
        echo "perf_analyzer needs $library, which pytriton's wheel brings: run 'make setup' first." >&2
        exit 1
    fi
    ln -s "$PWD/$found" "$target/$library"
done
LD_LIBRARY_PATH=$target "$program" --version 2>&1 | head -n 1
