#!/bin/sh
# Usage: tools/align.sh. Raises every dependency that the product shares with the tools of its tests to one version, the
# highest of them all, as a workspace would select it. What they share is then downloaded and compiled once.
set -eu
cd "$(dirname "$0")/.."
modules=". tools/etcd tools/helm tools/kubernetes tools/promtool"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
workspace=$folder/go.work
(cd "$folder" && go work init)
for module in $modules; do
	go work edit -use "$PWD/$module" "$workspace"
done

for module in $modules; do
	packages=tool
	[ "$module" != . ] || packages=./...
	used=$(cd "$module" && GOWORK=off go list -deps -test -f '{{with .Module}}{{if .Version}}{{.Path}}{{end}}{{end}}' $packages | sort -u)
	# shellcheck disable=SC2086 # lists of words
	(cd "$module" && versions=$(GOWORK=$workspace go list -m -f '{{.Path}}@{{.Version}}' $used) &&
		GOWORK=off go get $versions && GOWORK=off go mod tidy)
done
