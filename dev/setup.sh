#!/bin/sh
# Installs what building and testing need, at pinned versions, and says each step. Quick when all is there.
set -eu
cd "$(dirname "$0")/.."

WASM_BINDGEN=0.2.129
TOOLS=.tools

say() { printf 'set-up: %s\n' "$1"; }
fail() { printf 'set-up: %s\n' "$1" >&2; exit 1; }

command -v cargo >/dev/null && command -v rustup >/dev/null ||
  fail 'Rust is missing; install it from https://rustup.rs and run this again'

mkdir -p "$TOOLS"
lock=$(cksum <package-lock.json)
if [ ! -d node_modules ] || [ "$lock" != "$(cat "$TOOLS/package-lock.cksum" 2>/dev/null)" ]; then
  say 'npm packages from the lockfile'
  # The one install script that is needed: it fetches the Node.js of this platform from the same registry.
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  npm rebuild node --loglevel=error
  printf '%s' "$lock" >"$TOOLS/package-lock.cksum"
fi

for component in clippy rustfmt; do
  if ! rustup component list --installed | grep -q "^$component"; then
    say "Rust component $component"
    rustup component add "$component"
  fi
done

if ! rustup target list --installed | grep -qx wasm32-unknown-unknown; then
  say 'Rust target wasm32-unknown-unknown'
  rustup target add wasm32-unknown-unknown
fi

if [ "$("$TOOLS/bin/wasm-bindgen" --version 2>/dev/null)" != "wasm-bindgen $WASM_BINDGEN" ]; then
  say "wasm-bindgen $WASM_BINDGEN from source, about two minutes"
  # Unoptimised: it runs for a second, and building it optimised takes three times as long.
  cargo install wasm-bindgen-cli --version "$WASM_BINDGEN" --locked --debug --root "$TOOLS" --quiet
fi

if [ -n "${SLUICEGATE_REDIS:-}" ]; then
  command -v "$SLUICEGATE_REDIS" >/dev/null || fail "SLUICEGATE_REDIS=$SLUICEGATE_REDIS: there is no such program"
elif ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say 'Redis from Debian'
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >/dev/null
  else
    fail 'a Redis server is missing; run: sudo apt-get install redis-server (or brew install redis)'
  fi
fi
