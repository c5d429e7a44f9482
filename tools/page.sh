#!/bin/sh
# Usage: tools/page.sh vendor | browser
#
# vendor copies the library of the plots, at the version that tools/page/package-lock.json pins, to the assets of the page.
# browser installs what tests the page: Chromium and Node.js from Debian, and the packages of tools/page. What cannot be
# installed is reported, and the test is skipped.
set -eu
cd "$(dirname "$0")/.."
out=$PWD/bin/tools/page
assets=internal/mycloud/server/page/assets/uplot

# packages installs the pinned packages of npm, unless they are there.
packages() {
	! cmp -s tools/page/package-lock.json "$out/package-lock.json" || [ ! -e "$out/complete" ] || return 0
	rm -rf "$out"
	mkdir -p "$out"
	cp tools/page/package.json tools/page/package-lock.json tools/page/.npmrc "$out"
	(cd "$out" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) || return 1
	touch "$out/complete"
}

case ${1:-} in
vendor)
	packages
	mkdir -p $assets
	cp "$out/node_modules/uplot/dist/uPlot.iife.min.js" "$out/node_modules/uplot/dist/uPlot.min.css" "$out/node_modules/uplot/LICENSE" $assets/
	chmod 644 $assets/*
	;;
browser)
	missing=
	for pair in chromium:chromium node:nodejs npm:npm; do
		command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
	done
	if [ -n "$missing" ]; then
		if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
			echo "missing packages:$missing; install them as root, on Debian by apt-get install$missing"
			exit 0
		fi
		# shellcheck disable=SC2086 # one argument for each package
		if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing fonts-dejavu-core >/dev/null; }; then
			echo "packages could not be installed:$missing; the test of the page in a browser is skipped"
			exit 0
		fi
	fi
	packages || echo "the packages of tools/page could not be installed; the test of the page in a browser is skipped"
	;;
*)
	sed -n '2s/^# //p' "$0" >&2
	exit 2
	;;
esac
