#!/usr/bin/env bash
# Name the needed Python before anything is installed with a wrong one.
set -eu
python=$1
if ! "$python" -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 12)))' 2>/dev/null; then
    found=$("$python" --version 2>/dev/null || echo "no $python")
    echo "Tritonscope needs Python 3.11 or 3.12, found $found. Say which one to use: make PYTHON=python3.11 ..." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "This Python cannot make virtual environments: install its venv package (Debian: python3-venv)." >&2
    exit 1
fi
