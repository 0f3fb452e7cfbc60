# Sourced by tools/test, tools/test-more and tools/test-daily: names each step, and prints a table of all, with seconds, when the script ends.
#   step NAME COMMAND...   ends the script if the command fails
#   try NAME COMMAND...    goes on, so that one run tells about every part; true if the command succeeded. The script
#                          fails in the end
steps=()
step_name=""
some_failed=0
failed_tests=""

step() {
  begin_step "$1"
  "${@:2}"
  end_step ok
}

try() {
  begin_step "$1"
  mkdir -p build && touch build/step_began
  # The log's end is printed again at the very end if the step failed.
  if "${@:2}" 2>&1 | tee build/step.log; then
    end_step ok
  else
    end_step FAILED
    remember_failure "$1"
    some_failed=1
    return 1
  fi
}

# The end of what each failed test of ctest printed, or of what the step printed: the whole is far above the table, and a reader
# may have its end only.
remember_failure() {
  local log before=$failed_tests
  while read -r log; do
    failed_tests+=$(awk '
      /^[0-9]+\/[0-9]+ Test(ing)?: / {count = 0}
      {line[count++] = $0}
      /^Test (Failed|time = .*|Timeout)/ && /Failed|Timeout/ {
        print "\n" line[0]
        for (i = count > 40 ? count - 40 : 1; i < count; ++i) print line[i]
      }' "$log")
  done < <(find build -path '*/Testing/Temporary/LastTest.log' -newer build/step_began)
  [ "$failed_tests" != "$before" ] || failed_tests+=$'\n'"$1:"$'\n'"$(tail -n 40 build/step.log)"
}

begin_step() {
  step_name=$1 step_start=$SECONDS
  printf '\n=== %s\n' "$step_name"
}

end_step() {
  [ -n "$step_name" ] || return 0
  steps+=("$(printf '%6d s  %-6s  %s' $((SECONDS - step_start)) "$1" "$step_name")")
  step_name=""
}

print_steps() {
  local result=$?
  end_step FAILED
  printf '%s\n' "$failed_tests"
  printf '\n%s, %d s:\n' "$0" "$SECONDS"
  printf '%s\n' "${steps[@]}"
  if [ "$result" -eq 0 ]; then exit "$some_failed"; fi
  exit "$result"
}
trap print_steps EXIT
