#!/bin/sh
# Certbot's deploy hook: copies a certificate to the folder that the proxy reads, and has the proxy read it anew.
#   certbot certonly ... --deploy-hook "/opt/relayer/deploy/certbot-hook.sh FOLDER COMMAND"
# A copy, because Certbot's own files are links to others outside of their folder, which root alone can read.
set -eu
folder=$1
shift
install -d "$folder"
install -m 644 "$RENEWED_LINEAGE/fullchain.pem" "$folder/fullchain.pem"
# The user of nginx in its container; beside systemd root reads it.
install -m 400 -o "${TLS_OWNER:-101}" "$RENEWED_LINEAGE/privkey.pem" "$folder/privkey.pem"
"$@"
