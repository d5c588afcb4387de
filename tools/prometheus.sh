#!/usr/bin/env bash
# Prometheus and Alertmanager for the tests: Debian's packages, unpacked into .tools/prometheus; nothing is installed.
set -eu
cd "$(dirname "$0")/.."
target=.tools/prometheus
programs=(prometheus promtool prometheus-alertmanager amtool)
missing=0
for program in "${programs[@]}"; do
    [ -x "$target/usr/bin/$program" ] || missing=1
done
if [ "$missing" = 0 ]; then
    touch "$target/.ready"
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "The tests against Prometheus need its Debian packages (apt-get, dpkg): put the programs ${programs[*]}" \
        "into $target/usr/bin and run again." >&2
    exit 1
fi
echo "tests: unpacking Debian's prometheus and prometheus-alertmanager into $target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
# Package lists of its own, so that it needs no root and no list on the machine.
apt=(apt-get -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=" -qq)
log=$work/log
if ! (cd "$work" && "${apt[@]}" update && "${apt[@]}" download prometheus prometheus-alertmanager) >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "The packages prometheus and prometheus-alertmanager could not be downloaded." >&2
    exit 1
fi
mkdir -p "$target"
for package in "$work"/prometheus_*.deb "$work"/prometheus-alertmanager_*.deb; do
    dpkg -x "$package" "$target"
done
"$target/usr/bin/prometheus" --version 2>&1 | head -n 1
touch "$target/.ready"
