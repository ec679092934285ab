#!/bin/sh
# A worker without an SDK: each order is charged once, waits suspended for the signal
# "approved", and then ends. It works until no run has come for $IDLE_MS (20 s by default).
# Start an order:   curl -X POST $NODE/order -d '{"tenant":"acme"}'
# Approve it:       curl -X POST $NODE/v1/runs/RUN/signals/approved -d '"by anna"'
set -eu
node=${NODE:-http://127.0.0.1:7477}

send() { # METHOD PATH JSON
	curl -sS --fail-with-body -X "$1" -H 'Content-Type: application/json' "$node$2" -d "$3"
}
text() { printf %s "$grant" | grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
number() { printf %s "$grant" | grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d : -f 2; }

send PUT /v1/workflows/order '{"version":"1","limit":{"key":"tenant","max":1}}' >/dev/null
claim='{"worker":"sh","workflows":[{"name":"order","version":"1"}],"credit":1,"wait_ms":'${IDLE_MS:-20000}'}'

while grant=$(send POST /v1/claims "$claim") && [ -n "$(text run_id)" ]; do
	run=$(text run_id) fence=$(number fence)
	case $grant in
	*'"name":"charge"'*) echo "$run was charged before" ;;
	*)
		echo "$run is charged"
		send POST "/v1/runs/$run/steps" '{"fence":'"$fence"',"steps":[{"name":"charge","result":"ch_1"}]}' >/dev/null
		;;
	esac
	case $grant in
	*'"timed_out":true'*)
		send POST "/v1/runs/$run/fail" '{"fence":'"$fence"',"error":{"type":"late","message":"nobody approved it"}}' >/dev/null
		;;
	*'"kind":"signal"'*)
		echo "$run is approved"
		send POST "/v1/runs/$run/complete" '{"fence":'"$fence"',"result":"shipped"}' >/dev/null
		;;
	*)
		echo "$run waits for its approval and holds no slot"
		send POST "/v1/runs/$run/suspend" '{"fence":'"$fence"',"until":{"signal":"approved","timeout_seconds":86400}}' >/dev/null
		;;
	esac
done
