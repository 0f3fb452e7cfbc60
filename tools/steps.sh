# Sourced by tools/test and tools/test-more: names each step, and prints a table of all, with seconds, when the script ends.
#   step NAME COMMAND...   ends the script if the command fails
#   try NAME COMMAND...    goes on, so that one run tells about every part; true if the command succeeded. The script
#                          fails in the end
steps=()
step_name=""
some_failed=0

step() {
  begin_step "$1"
  "${@:2}"
  end_step ok
}

try() {
  begin_step "$1"
  if "${@:2}"; then
    end_step ok
  else
    end_step FAILED
    some_failed=1
    return 1
  fi
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
  printf '\n%s, %d s:\n' "$0" "$SECONDS"
  printf '%s\n' "${steps[@]}"
  if [ "$result" -eq 0 ]; then exit "$some_failed"; fi
  exit "$result"
}
trap print_steps EXIT
