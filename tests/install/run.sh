#!/usr/bin/env bash
# Installs a build, moves the tree, and builds and runs a project outside against it. usage: run.sh BUILD_DIRECTORY
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$(cd "${1:?usage: run.sh BUILD_DIRECTORY}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "install test: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "cmake --install failed"
mkdir "$work/elsewhere"
mv "$work/first" "$work/elsewhere/moved"
tree=$work/elsewhere/moved

for file in lib/liblockstep.so lib/lockstep/plugins/pjrt_c_api_cpu_plugin.so include/lockstep/lockstep.h include/lockstep/mpi.h bin/lockstep \
  lib/cmake/lockstep/lockstepConfig.cmake share/doc/lockstep/licenses/xla-cpu-plugin/LICENSE; do
  [[ -e $tree/$file ]] || fail "$file is not installed"
done
if grep -rlF -e "$source" -e "$work/first" "$tree"; then fail "these files hold a path of the build"; fi
if find "$tree/include" -name '*.pb.h' | grep .; then fail "generated headers are installed"; fi

cp -r "$here/consumer" "$work/consumer"
cmake -S "$work/consumer" -B "$work/consumer/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$tree" >"$work/configure.log" 2>&1 || {
  cat "$work/configure.log" >&2
  fail "the outside project does not configure"
}
cmake --build "$work/consumer/build" >"$work/build.log" 2>&1 || {
  cat "$work/build.log" >&2
  fail "the outside project does not build"
}

# Neither the network, nor the environment, nor the working directory may matter.
offline=()
if unshare --net true 2>/dev/null; then offline=(unshare --net); fi
cd /
for program in consumer consumer_malloc; do
  timeout 60 env -i "${offline[@]}" "$work/consumer/build/$program" || fail "the outside program $program failed"
done
if ldd "$work/consumer/build/consumer" | grep mimalloc; then fail "a program has a malloc it did not ask for"; fi
ldd "$work/consumer/build/consumer_malloc" | grep -q mimalloc || fail "lockstep::malloc is not linked"
timeout 60 env -i "$tree/bin/lockstep" --help >"$work/help" || fail "the installed command does not start"
[[ -s $work/help ]] || fail "the installed command says nothing"
