#!/bin/sh
# Test group "official descriptors, live": the committed listing against p4runtime on PyPI (another version: P4RUNTIME_VERSION).
# Usage: check_pypi.sh [VENV FOLDER]. Exit 0 agrees, 1 differs, 77 skipped.
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$(mktemp -d)/venv}
if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q "p4runtime==${P4RUNTIME_VERSION:-1.6.0}"; } >"$venv.log" 2>&1; then
    echo "SKIPPED: no virtual environment with the PyPI package p4runtime:" >&2
    tail -n 3 "$venv.log" >&2
    exit 77
fi
exec "$venv/bin/python" "$here/golden_listing.py" --check "$here/golden_listing.txt"
