# Sourced by tools/test and tools/test-more: names each step, and prints a table of all, with seconds, when the script ends.
steps=()
step_name=""

step() {
  step_name=$1 step_start=$SECONDS
  printf '\n=== %s\n' "$step_name"
  "${@:2}"
  end_step ok
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
  exit "$result"
}
trap print_steps EXIT
