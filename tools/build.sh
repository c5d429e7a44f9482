#!/bin/sh
# Usage: tools/build.sh [tool...]. Builds pinned tools into bin/tools; without arguments, all of them.
#
# Each tool is built from the Go module in tools/<module>, so that the product never depends on a tool. Tools that exist
# at the pinned version are skipped. etcd, kube-apiserver and kubectl in $KUBEBUILDER_ASSETS are used without a build.
# make sets GOFLAGS and CGO_ENABLED, so that what several programs share is compiled once.
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0

all="etcd kube-apiserver kubectl kube-controller-manager helm promtool controller-gen golangci-lint benchstat cosign"
out=$PWD/bin/tools
stamps=$out/.stamps
heartbeat=15 # seconds between progress messages

# version MODULE PATH prints the version of module PATH that tools/MODULE pins.
version() {
	awk -v path="$2" '$1 == path || $1 == "require" && $2 == path { for (i = 1; i <= NF; i++) if ($i ~ /^v[0-9]/) { print $i; exit } }' "tools/$1/go.mod"
}

kubernetes=$(version kubernetes k8s.io/kubernetes)
minor=${kubernetes#v1.}
minor=${minor%%.*}

# describe TOOL sets module and package of a tool, and its linker flags.
describe() {
	ldflags="-s -w"
	case $1 in
	etcd) module=etcd package=go.etcd.io/etcd/server/v3 ;;
	kube-apiserver | kube-controller-manager | kubectl)
		module=kubernetes package=k8s.io/kubernetes/cmd/$1
		stamp=k8s.io/component-base/version
		ldflags="$ldflags -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor"
		;;
	helm)
		module=helm package=helm.sh/helm/v3/cmd/helm
		# The Kubernetes version that templates see without a cluster.
		for stamp in helm.sh/helm/v3/pkg/chartutil helm.sh/helm/v3/pkg/lint/rules; do
			ldflags="$ldflags -X $stamp.k8sVersionMajor=1 -X $stamp.k8sVersionMinor=$minor"
		done
		ldflags="$ldflags -X helm.sh/helm/v3/internal/version.version=$(version helm helm.sh/helm/v3)"
		;;
	promtool) module=promtool package=github.com/prometheus/prometheus/cmd/promtool ;;
	controller-gen) module=controller-gen package=sigs.k8s.io/controller-tools/cmd/controller-gen ;;
	benchstat) module=benchstat package=golang.org/x/perf/cmd/benchstat ;;
	cosign) module=cosign package=github.com/sigstore/cosign/v3/cmd/cosign ;;
	golangci-lint) module=golangci-lint package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
	*)
		echo "tools: unknown tool \"$1\"; must be one of: $all" >&2
		exit 2
		;;
	esac
}

# provided TOOL succeeds if KUBEBUILDER_ASSETS contains the tool.
provided() {
	case $1 in
	etcd | kube-apiserver | kubectl) [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$1" ] ;;
	*) return 1 ;;
	esac
}

# pin TOOL prints a checksum of everything a built tool depends on: module versions, toolchain and flags.
pin() {
	describe "$1"
	{ cat "tools/$module/go.mod" "tools/$module/go.sum"; go env GOVERSION GOOS GOARCH; echo "$ldflags"; } | cksum
}

current() { [ -x "$out/$1" ] && [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$(pin "$1")" ]; }

# build NEXT TOOL... builds tools of one module at once, so that one is linked while others are compiled, and
# prints its progress.
build() {
	next=$1
	shift
	label=$(echo "$*" | sed 's/ /, /g')
	log=$stamps/$1.log
	temporary=$out/.$1.$$
	mkdir -p "$temporary"
	packages=
	for tool; do
		describe "$tool"
		packages="$packages $package"
	done
	# The programs of several packages are named after them.
	output=$temporary/
	[ $# -gt 1 ] || output=$temporary/$1
	begin=$(date +%s)
	echo "$label: building${next:+ (next: $next)}"
	# shellcheck disable=SC2086 # a list of words
	(cd "tools/$module" && exec go build -mod=readonly -buildvcs=false -v -ldflags "$ldflags" -o "$output" $packages) >"$log" 2>&1 &
	child=$!
	# Without job control, background processes ignore Ctrl-C.
	trap 'kill "$child" 2>/dev/null; rm -rf "$temporary"; exit 130' INT TERM
	beat=$begin
	while kill -0 "$child" 2>/dev/null; do
		sleep 1
		now=$(date +%s)
		if [ $((now - beat)) -ge $heartbeat ]; then
			beat=$now
			fetched=$(grep -c '^go: downloading' "$log" || true)
			echo "$label: $((now - begin)) s, $fetched modules downloaded, $(($(wc -l <"$log") - fetched)) packages compiled"
		fi
	done
	if ! wait "$child"; then
		echo "tools: building $* failed; last lines of $log:" >&2
		tail -n 20 "$log" >&2
		rm -rf "$temporary"
		exit 1
	fi
	trap - INT TERM
	for tool; do
		mv "$temporary/$tool" "$out/$tool"
		pin "$tool" >"$stamps/$tool"
	done
	rmdir "$temporary"
	rm -f "$log"
	echo "$label: built in $(($(date +%s) - begin)) s"
}

mkdir -p "$stamps"
[ $# -gt 0 ] || set -- $all
missing=
for tool; do
	describe "$tool"
	provided "$tool" || current "$tool" || missing="$missing $tool"
done
[ -n "$missing" ] || exit 0

echo "tools: building$missing into bin/tools; this takes minutes the first time"
# shellcheck disable=SC2086 # a list of words
set -- $missing
while [ $# -gt 0 ]; do
	describe "$1"
	group=$1 of=$module
	shift
	while [ $# -gt 0 ] && describe "$1" && [ "$module" = "$of" ]; do
		group="$group $1"
		shift
	done
	# shellcheck disable=SC2086 # a list of words
	build "$*" $group
done
