#!/usr/bin/env bash
# Sets everything up, builds the library and the example, and trains a small GPT in two processes on the King James
# Bible. usage: scripts/quickstart.sh [train_gpt option...], for example --steps 100 or --text FILE
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh"
"$root/scripts/build.sh" release train_gpt lockstep_tool
exec "$root/build/release/tools/lockstep" run -n 2 -- "$root/build/release/examples/train_gpt" "$@"
