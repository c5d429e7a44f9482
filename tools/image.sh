#!/bin/sh
# Usage: tools/image.sh BUILDER IMAGE PLATFORMS FOLDER [--build-arg NAME=VALUE]... builds the image IMAGE of the programs
# in FOLDER/OS/ARCHITECTURE, with podman, docker or buildah. PLATFORMS is a list such as linux/amd64,linux/arm64. Several
# become one name, for which each machine gets its own (a manifest list).
#
# With SOURCE_DATE_EPOCH, the same programs result in the same image. PUSH=1 sends it to its registry.
set -eu

builder=$1 image=$2 platforms=$3 folder=$4
shift 4
set -- --file "$(dirname "$0")/../Containerfile" --platform "$platforms" "$@" "$folder"

several() { case $platforms in *,*) ;; *) return 1 ;; esac; }

case ${builder##*/} in
docker)
	"$builder" buildx version >/dev/null 2>&1 || { echo "image: docker needs its plugin buildx to build for platforms" >&2; exit 1; }
	if [ -n "${PUSH:-}" ]; then
		set -- --push "$@"
	elif several; then
		# Docker itself stores several platforms only with containerd's image store.
		set -- --output "type=oci,dest=$folder.tar" "$@"
		echo "image: docker writes several platforms to $folder.tar; set PUSH=1 to send them to the registry instead"
	else
		set -- --load "$@"
	fi
	"$builder" buildx build --provenance=false --tag "$image" "$@"
	;;
podman | buildah)
	[ -z "${SOURCE_DATE_EPOCH:-}" ] || set -- --timestamp "$SOURCE_DATE_EPOCH" "$@"
	if several; then
		# The images of an earlier build would stay in the list.
		"$builder" rmi "$image" >/dev/null 2>&1 || "$builder" manifest rm "$image" >/dev/null 2>&1 || true
		"$builder" build --manifest "$image" "$@"
		[ -z "${PUSH:-}" ] || "$builder" manifest push --all "$image" "docker://$image"
	else
		"$builder" build --tag "$image" "$@"
		[ -z "${PUSH:-}" ] || "$builder" push "$image"
	fi
	;;
*)
	echo "image: unknown builder \"$builder\"; must be podman, docker or buildah" >&2
	exit 2
	;;
esac
