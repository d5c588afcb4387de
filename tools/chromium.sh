#!/usr/bin/env bash
# A Chromium for the browser tests: the machine's own, else Debian's package, else Playwright's download.
set -eu
python=$1
if [ -n "${TRITONSCOPE_CHROMIUM:-}" ]; then
    [ -x "$TRITONSCOPE_CHROMIUM" ] || { echo "TRITONSCOPE_CHROMIUM=$TRITONSCOPE_CHROMIUM is not a program" >&2; exit 1; }
    exit 0
fi
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
echo "browser tests: installing Chromium"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    log=$(mktemp)
    if (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            chromium fonts-noto-core) >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    tail -n 5 "$log" >&2
    rm -f "$log"
fi
"$python" -m playwright install chromium || {
    echo "No Chromium found or installable: install one and set TRITONSCOPE_CHROMIUM to its path." >&2
    exit 1
}
