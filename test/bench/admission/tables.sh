#!/bin/sh
# Usage: test/bench/admission/tables.sh FILE. Prints the results of make bench-admission as tables of benchstat: medians of
# all rounds, their confidence intervals, and differences from the first column.
set -eu
file=$1
table() {
	printf '\n%s\n\n' "$1"
	shift
	# What was measured with is printed once.
	bin/tools/benchstat -table '' "$@" median="$file"
}

sed '/^Benchmark/d' "$file"
table 'Creates of LoadBalancer Services, compared with none, by number of clients' \
	-filter '.name:Create' -row /clients@num -col '/admission@(none policies floor controller-runtime quaymaster)'
table 'The same, compared with the floor' -filter '.name:Create .unit:(p50-sec OR p99-sec OR webhook-cpu-sec/op)' \
	-row /clients@num -col '/admission@(floor quaymaster quaymaster-1-policy quaymaster-10-policies quaymaster-all-catalogs)'
if grep -q /admission=quaymaster-before "$file"; then
	table 'This build, compared with the one before' \
		-filter '.name:(Create OR CreateClusterIP OR WriteStatus OR Start OR Idle OR Loaded)' \
		-row .name@alpha,/clients@num -col '/admission@(quaymaster-before quaymaster)'
fi
table 'Requests that cause no call' -filter '.name:(CreateClusterIP OR WriteStatus)' \
	-row .name@alpha,/clients@num -col '/admission@(none quaymaster)'
table 'Processes of the webhooks' -filter '.name:(Start OR Idle OR Loaded)' -row .name,/admission -col .file
if grep -q ^BenchmarkAttacked "$file"; then
	table 'Creates by one client during an attack' -filter '.name:Attacked' -row /attack@alpha -col '/admission@(none quaymaster)'
	table 'Reviews of hostile Services' -filter '.name:Hostile' -row /service@alpha -col '/path@(mutate-service validate-service)'
fi
