#!/usr/bin/env bash
# The embedded tritonserver is an x86-64 Linux binary for glibc 2.35 or newer. Elsewhere: one sentence.
set -eu
advice="NVIDIA's tritonserver wheel needs x86-64 Linux with glibc 2.35 or newer; use 'docker compose up' here instead."
system=$(uname -s) machine=$(uname -m)
if [ "$system" != Linux ] || [ "$machine" != x86_64 ]; then
    echo "make run does not work on $system $machine: $advice" >&2
    exit 1
fi
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{print $2}')
if [ -z "$glibc" ] || [ "$(printf '%s\n2.35\n' "$glibc" | sort -V | head -n 1)" != 2.35 ]; then
    echo "make run does not work with ${glibc:+glibc }${glibc:-this C library}: $advice" >&2
    exit 1
fi
