#!/usr/bin/env bash
# The whole suite in two lanes at once: the first one computes, the second one mostly waits, for scrapes, alerts and
# time-outs. What the second one says is shown when the first has ended. Status 0 if both are green.
set -u
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
status=0

# Tests of the second lane that failed are tried again once the first lane lets go of this lock.
export ALONE="$folder/alone"
exec 9>"$ALONE"
flock 9

# Interrupted, it can put away what it has started; a background job of a script ignores that signal by default.
env --default-signal=INT setsid bash tools/tests.sh -q -n 3 --dist loadfile --no-loadscope-reorder --durations=10 \
    -m waits tests/integration >"$folder/waits" 2>&1 </dev/null 9>&- &
waits=$!
leave() {
    kill -INT -- "-$waits" 2>/dev/null
    wait "$waits"
    rm -rf "$folder"
    exit 130
}
trap leave INT TERM HUP

part() { ALONE='' bash tools/tests.sh -q -n 2 "$@" 9>&- || status=$?; }
part tests/rules tests/architecture tests/unit tests/pages
part -n 3 --dist loadfile --no-loadscope-reorder --durations=10 -m "not waits" tests/integration
part --dist loadfile --no-loadscope-reorder --durations=5 tests/e2e

exec 9>&-
echo "tests: the lane that waits"
tail -n +1 -f --pid="$waits" "$folder/waits"
wait "$waits" || status=$?
rm -rf "$folder"
exit "$status"
