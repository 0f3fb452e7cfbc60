#!/usr/bin/env bash
# Runs the fuzzers of kernels on all cores, for tools/fuzz --fast, and on machines to which only their programs were copied.
#   tools/fuzz_cores.sh PROGRAMS CORPUS OUT SECONDS [CORES]
# Each core runs every fuzzer for its share of the time, with a seed of its own and the corpus in CORPUS/NAME. All processes of
# a fuzzer share OUT/found/NAME; failing inputs are in OUT/crashes, reports in OUT/logs. After a finding the fuzzer starts again,
# up to 8 times. Ends with a table. Exit code 1: something was found.
set -euo pipefail
[ $# -eq 4 ] || [ $# -eq 5 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
programs=$(realpath "$1") corpus=$(realpath "$2") out=$3 seconds=$4 cores=${5:-$(nproc)}
here=$(cd "$(dirname "$0")/.." && pwd)
most_starts=8
# Fuzzers and the percentage of the time that each gets.
fuzzers='kernel_address 67
kernel_statements 20
kernel 13'
mkdir -p "$out/crashes" "$out/logs" && rm -f "$out"/logs/*.log
out=$(realpath "$out")
ulimit -c 0 -f $((64 * 1024))  # KiB of a file: a report cannot fill the disk

run_core() {
  local core=$1 name percent begin=$SECONDS passed=0
  while read -r name percent; do
    passed=$((passed + percent))
    local end=$((begin + seconds * passed / 100)) start=0
    local options=(-timeout=10 -rss_limit_mb=3000 -entropic=0 -reload=60 -print_final_stats=1 "-artifact_prefix=$out/crashes/$name-")
    [ -f "$here/tests/fuzz/$name.dict" ] && options+=("-dict=$here/tests/fuzz/$name.dict")
    mkdir -p "$out/found/$name"
    while [ $SECONDS -lt $end ] && [ $start -lt $most_starts ]; do
      start=$((start + 1))
      local log=$out/logs/$name-$core-$start.log left=$((end - SECONDS))
      # An input that hangs is ended by libFuzzer after 10 seconds, and whatever does not end is killed.
      timeout -k 5 $((left + 15)) "$programs/${name}_fuzz" "${options[@]}" "-seed=$((1000 * core + start))" "-max_total_time=$left" \
        "$out/found/$name" "$corpus/$name" >"$log" 2>&1 && break
      echo "exit code $?" >>"$log"
    done
  done <<<"$fuzzers"
}
for ((core = 1; core <= cores; ++core)); do run_core "$core" & done
wait

failed=0 all=0
echo '| fuzzer | inputs | a second and core | edges | findings |'
echo '|---|---|---|---|---|'
while read -r name _; do
  inputs=0 rates=0 edges=0 findings=0 processes=0
  for log in "$out/logs/$name"-[0-9]*.log; do
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log" | tail -1)
    reached=$(grep -oE ' cov: [0-9]+' "$log" | tail -1 | grep -oE '[0-9]+' || true)
    inputs=$((inputs + ${count:-0})) rates=$((rates + ${rate:-0})) processes=$((processes + 1))
    [ "${reached:-0}" -le $edges ] || edges=$reached
    if grep -q '^exit code' "$log"; then
      findings=$((findings + 1)) failed=1
      grep -hE 'ERROR|broken promise|terminate|what\(\)|^Base64: .{,1000}$|Test unit written' "$log" | head -6 >&2 || tail -n 6 "$log" >&2
    fi
  done
  all=$((all + inputs))
  echo "| \`$name\` | $inputs | $((rates / processes)) | $edges | $findings |"
done <<<"$fuzzers"
echo "| all | $all | | | $([ $failed -eq 0 ] && echo 0 || echo 'see above') |"
exit $failed
