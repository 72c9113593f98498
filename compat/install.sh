#!/usr/bin/env bash
# Installs what the compat suites need besides Go: clients of other languages and the jars of Apache Kafka 4.3.1.
# Idempotent: every step looks first whether its result is there. Caches live in compat/.cache.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p .cache

# apt NAME COMMAND: installs a Debian package unless the command exists.
apt_updated=
apt() {
  command -v "$2" >/dev/null && return
  [ -n "$apt_updated" ] || { apt-get update -qq; apt_updated=1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

# --- raw: kcat, Apache Kafka (broker, tools, Streams, Connect) ---
apt kcat kcat
apt default-jre-headless java
apt maven mvn
jars=.cache/kafka-4.3.1/lib
needed=(kafka-clients kafka-tools kafka_2.13 kafka-streams connect-runtime connect-file)
if ! (cd "$jars" && ls "${needed[@]/%/-4.3.1.jar}") >/dev/null 2>&1; then
  mvn -q -B -f peer/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/$jars"
fi

# --- clients: the programs that drive librdkafka 1.9 and 2.x through confluent-kafka-go, sarama and kafka-go, and the Java agent, into
# compat/bin; the Python clients into one venv, kafkajs beside its program ---
apt gcc gcc
[ -e /usr/include/stdio.h ] || apt libc6-dev /usr/include/stdio.h
apt default-jdk-headless javac
build_rdkafka() { # build_rdkafka NAME: a cgo program in a module of its own; the Go build cache makes the second time cheap
  CGO_ENABLED=1 go -C "clients/$1" build -o "$PWD/bin/$1" .
}
build_go() { # build_go NAME: a program in a module of its own, without cgo
  CGO_ENABLED=0 go -C "clients/$1" build -o "$PWD/bin/$1" .
}
# stamped STAMP FILE...: whether the stamp is newer than all files, and so what it stands for is there.
stamped() {
  local stamp=$1 file
  shift
  [ -e "$stamp" ] || return 1
  for file in "$@"; do [ "$stamp" -nt "$file" ] || return 1; done
}
install_venv() { # install_venv DIRECTORY REQUIREMENTS
  local venv=$1 requirements=$2
  if stamped "$venv/.installed" "$requirements"; then return; fi
  command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null || apt python3-venv /usr/lib/python3/dist-packages/ensurepip
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: -r "$requirements"
  touch "$venv/.installed"
}
# The lockfile names every package by its hash; none runs a script of its own when it is installed.
install_node() {
  local stamp=clients/node/node_modules/.installed
  if stamped "$stamp" clients/node/package-lock.json; then return; fi
  apt nodejs node
  apt npm npm
  npm ci --prefix clients/node --ignore-scripts --no-audit --no-fund --silent
  touch "$stamp"
}
build_java() { # build_java CLASSES SOURCES: every Java file below SOURCES
  local classes=$1 sources=$2 stamp=$1/.built
  if [ -e "$stamp" ] && [ -z "$(find "$sources" -name '*.java' -newer "$stamp")" ]; then return; fi
  rm -rf "$classes" && mkdir -p "$classes"
  find "$sources" -name '*.java' -exec javac --release 17 -Xlint:all,-path,-classfile,-processing -cp "$jars/*" -d "$classes" {} +
  touch "$stamp"
}
mkdir -p bin
build_rdkafka rdkafka1
build_rdkafka rdkafka2
build_go sarama
build_go kafkago
install_venv .cache/venv clients/python/requirements.txt
install_venv .cache/native native/python/requirements.txt # the upstream client of the native protocol
install_node
build_java bin/java clients/java

# --- streams: the word count of Kafka Streams ---
build_java bin/streams streams/java
