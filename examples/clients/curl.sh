#!/bin/sh
# Streams a chat answer through Signalbox with curl, headers included: ./curl.sh "your question" (plain text, no quotes in it).
set -eu
url=${SIGNALBOX_URL:-http://127.0.0.1:4100/v1}
question=${1:-What does a signal box do?}

curl --silent --show-error --no-buffer --include "$url/chat/completions" \
  --header "authorization: Bearer ${SIGNALBOX_KEY:-unused}" \
  --header "content-type: application/json" \
  --data "{\"model\": \"${SIGNALBOX_MODEL:-auto}\", \"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"$question\"}]}"
