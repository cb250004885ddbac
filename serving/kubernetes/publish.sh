#!/usr/bin/env bash
# Copies an exported version into the cluster: serving/kubernetes/publish.sh bert_tiny 1
# It is unpacked under a hidden name, which no server takes for a version, and renamed when all of it
# is there: to tar, what was cut off between two blocks ends there. What a copy that broke off has
# left is deleted first; a version that is there stays.
set -euo pipefail
model=$1 version=$2

in_the_cluster() {
  kubectl exec -i bert-models -- sh -euc "$1" publish "/models/$model" "$version"
}

in_the_cluster '
  [ ! -e "$1/$2" ] || { echo "$1/$2 is there already" >&2; exit 1; }
  rm -rf "$1/.$2"
  mkdir -p "$1/.$2"' </dev/null
# macOS's tar would send attributes of files as further files.
COPYFILE_DISABLE=1 tar -C "saved_models/$model/$version" -cf - . |
  in_the_cluster 'tar -C "$1/.$2" -xf -'

contents='find . -type f -exec cksum {} + | LC_ALL=C sort'
sent=$(cd "saved_models/$model/$version" && eval "$contents")
[ "$sent" = "$(in_the_cluster "cd \"\$1/.\$2\"; $contents" </dev/null)" ] || {
  echo "/models/$model/.$version is not what was sent; try again" >&2; exit 1; }
in_the_cluster 'mv "$1/.$2" "$1/$2"' </dev/null
