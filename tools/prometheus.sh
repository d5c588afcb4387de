#!/usr/bin/env bash
# A Prometheus for the parity tests: Debian's package, unpacked into .tools/prometheus; nothing is installed.
set -eu
cd "$(dirname "$0")/.."
target=.tools/prometheus
if [ -x "$target/usr/bin/prometheus" ] && [ -x "$target/usr/bin/promtool" ]; then
    touch "$target/.ready"
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "The tests against Prometheus need its Debian package (apt-get, dpkg): put the programs prometheus and" \
        "promtool into $target/usr/bin and run again." >&2
    exit 1
fi
echo "parity tests: unpacking Debian's prometheus into $target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
# Package lists of its own, so that it needs no root and no list on the machine.
apt=(apt-get -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=" -qq)
log=$work/log
if ! (cd "$work" && "${apt[@]}" update && "${apt[@]}" download prometheus) >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "The package prometheus could not be downloaded." >&2
    exit 1
fi
mkdir -p "$target"
dpkg -x "$work"/prometheus_*.deb "$target"
"$target/usr/bin/prometheus" --version 2>&1 | head -n 1
touch "$target/.ready"
