#!/usr/bin/env bash
# Runs every fuzz target of the tree for the given time, one after the other: `go test -fuzz` takes one target of one package at a time.
# An input that fails is left in the package's testdata/fuzz, where the next plain test run finds it.
# `fuzz.sh list` only prints the targets, one a line: package, target, and the file that holds it.
set -euo pipefail
cd "$(dirname "$0")/../.."
duration=${1:-10s}
go=${GO:-go}
only=${FUZZ:-.} # a regular expression over "package target"
total=0 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
while IFS= read -r file; do
  dir=./$(dirname "$file")
  while IFS= read -r target; do
    [[ "$dir $target" =~ $only ]] || continue
    if [ "$duration" = list ]; then
      printf '%s %s %s\n' "$dir" "$target" "$file"
      continue
    fi
    total=$((total + 1))
    printf '== %s %s (%s)\n' "$dir" "$target" "$duration"
    # The end of the time may come while a worker reports, and is then told as a failure that names no input (golang.org/issue/56238):
    # such a run is repeated.
    for attempt in 1 2 3; do
      status=0
      "$go" test -tags invariants -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$dir" 2>&1 | tee "$out" || status=$?
      if [ "$status" -eq 0 ] || grep -q 'testdata/fuzz\|panic\|terminated unexpectedly' "$out" || ! grep -qx ' *context deadline exceeded' "$out"; then
        break
      fi
      printf '== %s %s ended while a worker reported (attempt %d)\n' "$dir" "$target" "$attempt"
    done
    if [ "$status" -ne 0 ]; then
      failed=$((failed + 1))
      printf '== %s %s failed with status %d\n' "$dir" "$target" "$status"
    fi
  done < <(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(f \*testing\.F\).*/\1/p' "$file")
done < <(git ls-files --cached --others --exclude-standard '*_test.go' ':!compat' | sort)
[ "$duration" != list ] || exit 0
printf '%d passed, %d failed\n' "$((total - failed))" "$failed"
[ "$failed" -eq 0 ]
