#!/usr/bin/env bash
# Runs pytest with the given arguments. Tests with real servers, browsers and clocks may meet a machine that stalls
# for seconds: what failed is named and tried once more, alone and in a fresh process. What fails twice is red.
# ALONE: a file; the second try waits until nobody holds a lock on it.
set -u
python=.venv/bin/python
status=0
# A cache of its own: another run in this folder must not say what failed here.
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
set -- "$@" -o "cache_dir=$cache"
"$python" -m pytest "$@" || status=$?
if [ "$status" -eq 1 ]; then
    [ -z "${ALONE:-}" ] || flock "$ALONE" true
    echo "tests: the failed ones are tried once more, alone"
    status=0
    "$python" -m pytest "$@" -n 0 --last-failed --last-failed-no-failures none || status=$?
fi
exit "$status"
