#!/bin/sh
# Installs the Debian packages that edges and their tests use, as far as they are missing. Services are not started.
set -eu

missing=
for pair in haproxy:haproxy nft:nftables conntrack:conntrack ip:iproute2 bird:bird2 keepalived:keepalived wrk:wrk; do
	PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing packages:$missing; install them as root, on Debian by apt-get install$missing"
	exit 0
fi

# Debian starts the services of new packages unless this file forbids it.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
	trap 'rm -f $policy' EXIT
fi
# shellcheck disable=SC2086 # one argument for each package
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; }; then
	echo "packages could not be installed:$missing; tests that need them are skipped"
fi
