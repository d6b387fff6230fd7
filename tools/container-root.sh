#!/bin/sh
# Lays out the root of the container's file system: container-root.sh BINARY FOLDER. The Containerfile runs it in its
# build stage, tools/container-replay.sh on any Linux machine.
set -eu

binary=$1 root=$2
install -D -m 755 "$binary" "$root/usr/local/bin/signalbox"
# The libraries that it is linked with, each at its own path. A static binary has none.
ldd "$binary" 2> /dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r library; do
    install -D -m 755 "$library" "$root$library"
done
# The roots that certificates of hosted models are checked against.
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
# Policies are mounted into the first, and usage, journals and kept answers are written into the second.
install -d -m 755 "$root/etc/signalbox"
install -d -m 750 -o 65532 -g 65532 "$root/var/lib/signalbox"
install -d -m 1777 "$root/tmp"
