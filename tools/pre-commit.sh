#!/bin/sh
# Runs quayctl lint as a hook of pre-commit, which calls it in the repository with the manifests. The program is built once
# in pre-commit's clone of this repository.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=$root/bin/pre-commit/quayctl
if [ ! -x "$program" ]; then
	(cd "$root" && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$program" ./cmd/quayctl)
fi
exec "$program" lint "$@"
