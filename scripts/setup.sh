#!/usr/bin/env bash
# The one set-up step of quickstart.sh and test.sh: Debian packages (packages.txt) and the pinned wheels (wheels.txt),
# fetched by pip, checked by SHA-256, cached in ${XDG_CACHE_HOME:-~/.cache}/lockstep and unpacked into .deps/. With
# --tests also the packages marked "test", the plugins of test-wheels.txt, and the virtual environment .venv/ that the
# oracle tests compare with; with --fuzz the packages marked "fuzz".
# What is there already is neither fetched nor unpacked again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

with_tests=false kind=
case "${1-}" in
  '') ;;
  --tests) with_tests=true kind=test ;;
  --fuzz) kind=fuzz ;;
  *) die "unknown argument '$1'; usage: scripts/setup.sh [--tests | --fuzz]" ;;
esac

cache=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/lockstep
log=$cache/setup.log
network_trouble='resolv|name resolution|unreachable|refused|timed out|connection|connect to|ProxyError'

check_platform() {
  local platform
  platform="$(uname -s) $(uname -m)"
  [[ $platform == "Linux x86_64" ]] ||
    die "unsupported architecture: $platform; the pinned XLA plugin is built for Linux x86_64 only"
}

need() { command -v "$1" >/dev/null || die "missing tool: $1; $2"; }

install_packages() {
  need dpkg-query "set-up installs Debian packages and needs Debian 12 or a system made from it"
  local wanted missing line
  mapfile -t wanted < <(awk -v kind="$kind" '!/^#/ && NF && ($2 == "" || $2 == kind) {print $1}' scripts/packages.txt)
  mapfile -t missing < <(
    dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${wanted[@]}" 2>/dev/null | awk '$1 == "ii" {print $2}' |
      grep -vxFf - <(printf '%s\n' "${wanted[@]}")
  )
  ((${#missing[@]})) || return 0
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  [[ $(id -u) == 0 ]] || die "no root for packages; run this, then try again: sudo $line"
  need apt-get "set-up installs Debian packages and needs Debian 12 or a system made from it"
  say "installing ${#missing[@]} Debian packages (log: $log)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update >"$log" 2>&1 || true # a broken foreign source need not matter; the next line decides
  if ! $line >>"$log" 2>&1 </dev/null; then
    if grep -qiE "$network_trouble" "$log"; then die "no network: apt-get could not fetch packages (log: $log)"; fi
    die "apt-get failed: $(grep '^E:' "$log" | tail -n 1) (log: $log)"
  fi
}

check_tools() {
  local tool
  for tool in g++ cmake ninja protoc grpc_cpp_plugin python3 unzip; do
    need $tool "it is not on PATH although its Debian package is installed"
  done
}

# The first python that has pip: an own python may come without it, Debian's has it from python3-pip.
find_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      pip=("$python" -m pip)
      return
    fi
  done
  die "missing tool: pip; neither python3 nor /usr/bin/python3 has it: apt-get install python3-pip"
}

run_pip() { # run_pip WHAT argument...
  local what=$1
  shift
  export PIP_RETRIES=${PIP_RETRIES:-2} PIP_DISABLE_PIP_VERSION_CHECK=1
  "$@" >"$log" 2>&1 </dev/null && return
  if grep -q 'CERTIFICATE_VERIFY_FAILED' "$log"; then
    die "pip does not trust the certificate it was shown for $what; behind a proxy set PIP_CERT to its certificate"
  fi
  if grep -qiE "$network_trouble" "$log"; then die "no network: pip could not fetch $what (log: $log)"; fi
  die "pip could not fetch $what: $(grep '^ERROR' "$log" | tail -n 1) (log: $log)"
}

checksum() { sha256sum "$1" | cut -d ' ' -f 1; }

fetch_wheel() { # fetch_wheel NAME VERSION SHA256 FILE
  local name=$1 version=$2 expected=$3 file=$4 tmp actual
  [[ ! -f $cache/$file || $(checksum "$cache/$file") != "$expected" ]] || return 0
  [[ ${pip+set} ]] || find_pip
  say "fetching $name $version"
  tmp=$cache/fetching
  rm -rf "$tmp"
  run_pip "$name==$version" "${pip[@]}" download --no-deps --no-cache-dir --only-binary :all: \
    --platform manylinux_2_27_x86_64 --implementation cp --python-version 3.11 --abi cp311 \
    --dest "$tmp" "$name==$version"
  [[ -f $tmp/$file ]] || die "pip fetched $(ls "$tmp") where $file was expected"
  actual=$(checksum "$tmp/$file")
  [[ $actual == "$expected" ]] || die "bad checksum: $file has SHA-256 $actual, expected $expected; not used"
  mv "$tmp/$file" "$cache/$file"
  rm -rf "$tmp"
}

unpack() { # unpack FILE PATTERN DIRECTORY: the files that match, without their paths
  mkdir -p "$3"
  unzip -q -o -j "$cache/$1" "$2" -d "$3" || die "cannot unpack $2 from $cache/$1"
}

install_wheels() {
  local stamp name version sha file new
  stamp=$(grep -v '^#' scripts/wheels.txt)
  if [[ -f .deps/stamp && $(<.deps/stamp) == "$stamp" ]]; then return 0; fi
  new=.deps/new
  rm -rf $new
  mkdir -p .deps $new
  while read -r name version sha file; do
    fetch_wheel "$name" "$version" "$sha" "$file" </dev/null
    case $name in
      lammps-jax-pjrt-cpu)
        unpack "$file" 'lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so' $new/plugin
        unpack "$file" '*.dist-info/licenses/*' $new/licenses/xla-cpu-plugin
        ;;
      xla-cpu-pjrt) # it ships no licence file; the header names its licence at its top
        unpack "$file" 'xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h' $new/include
        ;;
      jaxlib)
        unpack "$file" 'jaxlib/include/xla/ffi/api/*' $new/include/xla/ffi/api
        unpack "$file" '*.dist-info/licenses/*' $new/licenses/jaxlib
        ;;
    esac
  done <<<"$stamp"
  for file in plugin include licenses; do
    rm -rf ".deps/$file"
    mv "$new/$file" ".deps/$file"
  done
  rmdir $new
  printf '%s\n' "$stamp" >.deps/stamp
}

install_test_plugins() {
  local stamp name version sha file new=.deps/new-test-plugins
  stamp=$(grep -v '^#' scripts/test-wheels.txt)
  if [[ -f .deps/test-plugins/stamp && $(<.deps/test-plugins/stamp) == "$stamp" ]]; then return 0; fi
  rm -rf $new
  while read -r name version sha file; do
    fetch_wheel "$name" "$version" "$sha" "$file" </dev/null
    case $name in
      fastatomstruct-xla-cpu) unpack "$file" 'fastatomstruct_xla_cpu/libpjrt_cpu.so' $new/api-0.106 ;;
      xla-cpu-pjrt) unpack "$file" 'xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so' $new/api-0.81 ;;
    esac
  done <<<"$stamp"
  printf '%s\n' "$stamp" >$new/stamp
  rm -rf .deps/test-plugins
  mv $new .deps/test-plugins
}

make_venv() {
  cmp -s scripts/oracle-requirements.txt .venv/requirements.txt && return
  say "making .venv with JAX for the oracle tests"
  rm -rf .venv
  /usr/bin/python3 -m venv .venv >"$log" 2>&1 || die "python3 could not make .venv (log: $log)"
  run_pip "JAX for the tests" .venv/bin/pip install --find-links "$cache" -r scripts/oracle-requirements.txt
  cp scripts/oracle-requirements.txt .venv/requirements.txt
}

check_platform
mkdir -p "$cache" 2>/dev/null || die "cannot write to the cache $cache; set XDG_CACHE_HOME to a writable directory"
need flock "it is in Debian's package util-linux"
exec 9>"$cache/setup.lock"
flock -w 1800 9 || die "another set-up has held $cache/setup.lock for half an hour"
install_packages
check_tools
install_wheels
if $with_tests; then
  install_test_plugins
  make_venv
fi
say "ready"
