# Sourced by tools/demo and tools/survey-gpu: builds the program, with one line of progress instead of the compiler's hundreds.
#   build_program FOLDER [CMAKE OPTION...]      the log is printed if it fails
# The compiler's progress: one line that is written over on a terminal, a line every tenth elsewhere.
progress() {
  local terminal=0
  if [ -t 1 ]; then terminal=1; fi
  awk -v terminal=$terminal '
    match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), part, "/")
      if (terminal) printf "\r  compiled %d of %d files ", part[1], part[2]
      else if (10 * part[1] >= (tenth + 1) * part[2]) printf "  compiled %d of %d files\n", part[1], part[2]
      tenth = int(10 * part[1] / part[2])
      fflush()
    }
    END { if (terminal) printf "\n" }'
}

build_program() {
  local log
  log=$(mktemp)
  if ! { cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release "${@:2}" && cmake --build "$1" --target bitmma_program; } 2>&1 | tee "$log" | progress; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
