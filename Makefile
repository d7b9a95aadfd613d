# Everything a user or a developer runs. `make serve` needs a Rust toolchain and a C compiler, nothing else. `make test` installs what it
# needs besides (Python 3 with venv, kcat), or says what is missing; it needs the network once, for the clients below .cache/.

CARGO ?= cargo
SEEDS ?= 100
SECONDS ?= 60
RUNS ?= 1
MINUTES ?= 15
# clients of others that work beside the load of a cluster, and scenarios that they meet
GUESTS ?= franz/once franz/the_same_with franz/aborted_records java/move_every java/hundred_transactions java/fences_the_first streams/exactly_once
VISITED ?= N-02 N-05 N-08 N-17 S-01
TARGETS ?=
ARGS ?=

.PHONY: dist deb serve cluster build setup test test-clients test-security sim sim-cluster sim-every sim-quorum chaos chaos-cluster chaos-guests soak bench fuzz fuzz-check check fmt deny

## build the release binary and start a broker on 127.0.0.1:9092 with its data in ./data
serve: build
	exec target/release/esker serve $(ARGS)

## three nodes on 127.0.0.1:9092, 9192 and 9292 that keep their metadata together, with data below ./data/1 to ./data/3; Ctrl-C stops them
cluster: build
	exec ops/cluster $(ARGS)

build:
	$(CARGO) build --release --bin esker

## every test of the workspace, of the comparison's harness, then the quick clients; fuzz targets at least compile
test: setup
	$(MAKE) fuzz-check
	$(CARGO) test --workspace
	python3 -m unittest discover bench/tests
	ESKER_BIN=target/debug/esker tests/clients/run --quick

## what the tests need beside the toolchain, installed or named
setup:
	@tests/setup

## clients and tools that nobody here wrote, against the release binary; installs what it needs
test-clients: build
	tests/clients/run $(ARGS)

## requests that nobody should be granted, against real brokers: Kafka's answers to ten askers, nodes without proof, logins in every state
test-security: build
	tests/security/matrix
	tests/security/nodes
	tests/security/login

## seeded runs of the real broker on a simulated machine: make sim SEEDS=1000
sim:
	$(CARGO) run --release --package sim -- --seeds $(SEEDS) $(ARGS)

## seeded runs of three brokers as one cluster, shared out among its loads: make sim-cluster SEEDS=3000
CLUSTER_LOADS = cluster coordinators markers replicas replicated-groups replicated-transactions moves quiet-moves rot pipelined upgrade
sim-cluster:
	$(CARGO) build --release --package sim
	@failed=0; each=$$((($(SEEDS) + $(words $(CLUSTER_LOADS)) - 1) / $(words $(CLUSTER_LOADS)))); \
	for load in $(CLUSTER_LOADS); do \
	  $(CARGO) run --quiet --release --package sim -- --seeds $$each --load $$load $(ARGS) || failed=1; done; exit $$failed

## seeded runs of the quorum alone, on model disks and a model network: make sim-quorum SEEDS=50000
sim-quorum:
	$(CARGO) run --release --package sim --bin quorum -- --seeds $(SEEDS) $(ARGS)

## of a few seeds a failing sync, a failing write and a power cut at every place, and every crash state of transactions: hours
sim-every:
	for places in --syncs --writes --operations "--load transactions --images"; do \
	  $(CARGO) run --release --package sim -- --seeds $(SEEDS) --patience 7200 $(ARGS) $$places all || exit 1; done

## kill -9 and power cuts of the real process under load; a scenario that cannot run here is a failure with ARGS=--strict
chaos:
	tests/chaos/run $(ARGS)

## three real nodes in network namespaces, and every scenario of a cluster: make chaos-cluster RUNS=10; needs root
chaos-cluster:
	tests/chaos/run cluster --runs $(RUNS) $(ARGS)

## the same with franz-go, Java and Kafka Streams beside the load: make chaos-guests, VISITED=N-03 GUESTS=streams; installs these
chaos-guests:
	tests/chaos/run cluster --runs $(RUNS) $(GUESTS:%=--guest %) $(ARGS) $(VISITED)

## everything at once on three nodes of 512 MiB each: make soak MINUTES=15; needs root and control groups
soak:
	tests/chaos/run cluster soak --minutes $(MINUTES) $(ARGS)

## figures against Apache Kafka in one interleaved run
bench: build
	bench/compare $(ARGS)

## every fuzz target with sanitizers, one after the other: make fuzz SECONDS=60 (needs rustup's nightly)
fuzz:
	fuzz/run $(SECONDS) $(TARGETS)

# Any path keeps the build script from compiling libFuzzer, which only linking needs.
fuzz-check:
	CUSTOM_LIBFUZZER_PATH=/nonexistent/libfuzzer.a $(CARGO) check --quiet --locked --manifest-path fuzz/Cargo.toml \
	  --target-dir target/fuzz-check --bins

## what must pass before a commit
check: fmt
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --workspace
	$(CARGO) xtask tidy

fmt:
	$(CARGO) fmt --all --check

## the static binary in dist/; runs in an empty chroot or a container from scratch
dist:
	ops/dist

## a Debian package of it: user, unit, /etc/esker/server.properties
deb: dist
	ops/deb/build

## licences, advisories, duplicate libraries (needs cargo-deny, and for advisories the network)
deny:
	$(CARGO) deny check
