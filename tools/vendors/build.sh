#!/bin/sh
# Usage: tools/vendors/build.sh NAME [SOURCES]. Builds the judge tools/vendors/NAME into bin/vendors/NAME/judge. If the
# judge has a file source.txt, the vendor's code is taken from a checkout of that repository in the folder SOURCES;
# otherwise from the module that go.mod pins. Nothing of the checkout is changed. Further lines of source.txt are
# repositories of modules that the vendor's module needs and no proxy has, at the version in its go.mod.
set -eu
name=$1 sources=${2:-}
cd "$(dirname "$0")/$name"
out=$(cd ../../.. && pwd)/bin/vendors/$name
mkdir -p "$out"
# The copies may be changed; the committed files have no replacement by a folder of one machine.
cp go.mod go.sum "$out/"
modfile=$out/go.mod
module='' checkout='' version='' date='' package=.

if [ -f source.txt ]; then
	for repository in $(cat source.txt); do
		needed=$sources/$(basename "$repository")
		if [ -z "$sources" ] || [ ! -f "$needed/go.mod" ]; then
			echo "$name requires a checkout of $repository: clone it into a folder, and set SOURCES to that folder" >&2
			exit 1
		fi
		needed=$(cd "$needed" && pwd)
		if [ -z "$checkout" ]; then
			checkout=$needed
		else
			go mod edit -replace "$(sed -n 's/^module //p' "$needed/go.mod")=$needed" "$modfile"
		fi
	done
	module=$(sed -n 's/^module //p' "$checkout/go.mod")
	version=$(git -C "$checkout" describe --tags --always --dirty 2>/dev/null || echo unknown)
	date=$(git -C "$checkout" log -1 --format=%cs 2>/dev/null || true)
fi

# Some code is in a package main, or Go lets no other module import it. A judge that calls such code has a folder _inside
# with files that are added to a copy of the vendor's module; its file "package" has the path of the module, and the
# package in it to build.
if [ -d _inside ]; then
	read -r module folder <_inside/package
	package=$module/$folder
	if [ -z "$checkout" ]; then
		go mod download "$module"
		checkout=$(go list -m -f '{{.Dir}}' "$module")
		version=$(go list -m -f '{{.Version}}' "$module")
		date=$(go list -m -f '{{.Time.Format "2006-01-02"}}' "$module")
	fi
	rm -rf "$out/source"
	mkdir -p "$out/source"
	(cd "$checkout" && tar cf - --exclude=./.git --exclude=./vendor .) | tar xf - -C "$out/source"
	chmod -R u+w "$out/source"
	(cd _inside && tar cf - --exclude=./package .) | tar xf - -C "$out/source"
	checkout=$out/source
fi
[ -z "$checkout" ] || go mod edit -replace "$module=$checkout" "$modfile"
stamp=quaymaster.dev/tools/vendors/judge
go build -modfile="$modfile" -mod=mod -o "$out/judge" \
	-ldflags "-X $stamp.version=$version -X $stamp.date=$date" "$package"
