#!/usr/bin/env bash
# Replays the runtime stage of the Containerfile without a container engine: tools/container-replay.sh BINARY
#
# Lays out the image's root, mounts it read-only, and runs the image's command and health check in it as the image's user.
# Needs root, Linux, Python 3 and curl. Uses port 4100 of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath "$1")
work=$(mktemp -d)
root=$work/root
gateway=''
finish() {
    [ -z "$gateway" ] || kill "$gateway" 2> /dev/null || true
    wait 2> /dev/null || true
    umount "$root" 2> /dev/null || true
    rm -rf "$work"
}
trap finish EXIT

tools/container-root.sh "$binary" "$root"
echo "== image: $(du -sb "$root" | cut -f1) bytes"
(cd "$root" && find . -type f -printf '%10s  %p\n' | sort -k2)

# Strings of the Containerfile, so that the two cannot differ.
instruction() { python3 - "$1" <<'PY'
import json, re, sys
text = re.sub(r"\\\n", " ", open("Containerfile").read())
found = re.findall(rf"^{sys.argv[1]}\b.*?(\[.*\])$" if sys.argv[1] != "USER" else r"^USER (.*)$", text, re.MULTILINE)[-1]
print("\n".join(json.loads(found)) if found.startswith("[") else found)
PY
}
mapfile -t entry < <(instruction ENTRYPOINT)
mapfile -t command < <(instruction CMD)
mapfile -t check < <(instruction HEALTHCHECK)
user=$(instruction USER)

mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
inside=(env -i PATH=/usr/bin "$(command -v chroot)" --userspec="$user" "$root")

echo "== run: ${entry[*]} ${command[*]} as $user, read-only"
"${inside[@]}" "${entry[@]}" "${command[@]}" --simulate 2> "$work/log" &
gateway=$!
began=$(date +%s%N)
until "${inside[@]}" "${check[@]}"; do
    kill -0 "$gateway" || { cat "$work/log"; exit 1; }
    [ $(($(date +%s%N) - began)) -lt 10000000000 ] || { echo "not healthy in 10 s"; cat "$work/log"; exit 1; }
done
echo "== healthy after $((($(date +%s%N) - began) / 1000000)) ms"
grep -E "^(Uid|CapEff|NoNewPrivs)" "/proc/$gateway/status"
touch "/proc/$gateway/root/tmp/file" 2> /dev/null && { echo "the root can be written"; exit 1; }
curl -sS --fail http://127.0.0.1:4100/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": "auto", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8}'
echo
kill -TERM "$gateway"
wait "$gateway" && echo "== stopped: exit code 0"
gateway=''
"${inside[@]}" "${check[@]}" && { echo "still healthy after its end"; exit 1; }
echo "== passed"
