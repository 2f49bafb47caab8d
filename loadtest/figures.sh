#!/usr/bin/env bash
# The rows of docs/BENCHMARKS.md: each is run five times against a cluster that is started for it, and the median is
# printed. Usage: bash loadtest/figures.sh [seconds a run, default 10] [pattern of rows]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
only=${2:-.}
bin=$(mktemp -d)
trap 'stop; rm -rf "$bin"' EXIT
go build -o "$bin/local" ./deploy/local
go build -o "$bin/loadtest" ./loadtest
port=18080
pid=

start() { # nodes gateways
	rm -rf "$bin/data"
	"$bin/local" -data "$bin/data" -http "127.0.0.1:$port" -nodes "$1" -gateways "$2" >"$bin/out" 2>&1 &
	pid=$!
	for _ in $(seq 300); do
		grep -q 'Splashdam runs' "$bin/out" && return
		sleep 0.1
	done
	cat "$bin/out"
	exit 1
}

stop() {
	[ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; }
	pid=
}

median() { sort -g | sed -n 3p; }

# row NAME NODES GATEWAYS WHAT-TO-PICK ARGS...: pick is a field of the text report.
row() {
	local name=$1 nodes=$2 gateways=$3 pick=$4
	shift 4
	[[ $name =~ $only ]] || return 0
	local servers="http://127.0.0.1:$port"
	[ "$gateways" = 1 ] || servers="$servers,http://127.0.0.1:$((port + 1))"
	start "$nodes" "$gateways"
	local rates=() p50=() p99=()
	for _ in 1 2 3 4 5; do
		"$bin/loadtest" "$@" --server "$servers" >"$bin/report" 2>&1 || { cat "$bin/report"; exit 1; }
		rates+=("$(grep -o '[0-9]* messages/s' "$bin/report" | head -1 | cut -d' ' -f1)")
		p50+=("$(awk -v p="$pick" '$0 ~ "^" p " +[0-9]" {print $(NF-4)}' "$bin/report" | head -1)")
		p99+=("$(awk -v p="$pick" '$0 ~ "^" p " +[0-9]" {print $(NF-2)}' "$bin/report" | head -1)")
	done
	stop
	printf '%-28s %9s messages/s   p50 %8s ms   p99 %8s ms   (%s)\n' "$name" "$(printf '%s\n' "${rates[@]}" | median)" \
		"$(printf '%s\n' "${p50[@]}" | median)" "$(printf '%s\n' "${p99[@]}" | median)" "${rates[*]}"
}

echo "$(date -u +%FT%TZ)  $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), $(git rev-parse --short HEAD)"
d="-d ${seconds}s"
row batch-json-100B 1 1 publish publish -b 1000 -c 4 --size 100 $d
row batch-json-1KiB 1 1 publish publish -b 1000 -c 4 --size 1024 $d
row batch-json-100B-3-nodes 3 1 publish publish -b 1000 -c 4 --size 100 $d
row single-100B 1 1 publish publish -b 1 -c 64 --size 100 $d
row single-100B-3-nodes 3 1 publish publish -b 1 -c 64 --size 100 $d
row ndjson-100B 1 1 line ndjson -c 8 --size 100 $d
row consume-100 1 1 "receive and ack" consume -c 4 --max 100 --prefill 2000000 $d
row wake 1 2 "publish to delivery" wake $d
