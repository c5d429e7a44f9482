#!/bin/sh
# Usage: test/repo/versions/build.sh MINOR. Builds kube-apiserver of a Kubernetes release into bin/versions/MINOR, from the
# module in test/repo/versions/kubernetes-MINOR. The folder is a KUBEBUILDER_ASSETS for test/harness/env, which takes from bin/tools
# what is not in it.
set -eu
cd "$(dirname "$0")/kubernetes-$1"
release=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
stamp=k8s.io/component-base/version
CGO_ENABLED=0 go build -mod=readonly -trimpath -buildvcs=false -o "../../../../bin/versions/$1/" \
	-ldflags "-s -w -X $stamp.gitVersion=$release -X $stamp.gitMajor=1 -X $stamp.gitMinor=${1#*.}" \
	k8s.io/kubernetes/cmd/kube-apiserver
