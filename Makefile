# make demo    pods made by real CNI plugins, held to annotations and NetworkQoS, measured
# make test    every test; those that make network namespaces need root, and say so without it
# make test-long  what measures times, rates and memory; nothing else may run meanwhile
# make test-cluster  netqos on a cluster with real nodes, in namespaces of this machine; then test-multus
# make test-installations  what installations give to pods on two versions of Kubernetes and of the CNI plugins each
# make test-multus  pods change between netqos and a real Multus, which is built once, in both directions
# make test-kernels  netqos on other kernels, Debian's, each in an emulated machine
# make lint    formatting, clippy with warnings as errors, of the fuzz targets too, and the ceilings of scripts/ceilings
# make build   static executables for a node, in target/dist
# make image   an OCI archive of them, target/image/netqos.tar, without a container engine
# make bench   the figures of docs/benchmarks.md, -rules.md, -classes.md, -cluster.md and -multinet.md, measured again
# make kubernetes  the real Kubernetes programs and Helm that tests run, but neither Prometheus nor Multus, in a cache;
#                  prints their directory
# make deny    licences, sources and banned crates of the dependencies of the workspace, by cargo-deny
# make help    this list
.PHONY: demo test test-long test-cluster test-installations test-multus test-kernels lint deny build bench kubernetes dependencies clean help
.DEFAULT_GOAL := build

TARGET := $(shell uname -m)-unknown-linux-musl
DIST := target/dist
export CARGO_TARGET_DIR ?= $(CURDIR)/target

dependencies:
	@scripts/install-dependencies

# Minutes the first time. Tests build by themselves what they need of it. ARGS are the script's: a program.
kubernetes: dependencies
	@testing/kubernetes/build $(ARGS)

# The plugin by itself, so that no feature that others need comes into it.
build: dependencies
	cargo build --release --locked --target $(TARGET) -p netqos-plugins
	cargo build --release --locked --target $(TARGET) -p netqos-cli -p netqos-agent -p netqos-controller
	@mkdir -p $(DIST)
	@cd $(CARGO_TARGET_DIR)/$(TARGET)/release && cp -u bandwidth netqos netqos-agent netqos-controller netqos-multinet $(CURDIR)/$(DIST)/
	@ls -l $(DIST) | awk 'NR > 1 { print "  $(DIST)/" $$NF "  " $$5 " bytes" }'

DEMOS := iperf-slow $(addprefix networkqos-,story1-marks story2-free-is-limited story3-priorities \
  secondary-network ipv6 with-annotations) $(addprefix classes-,story2-offline-yields story3-a-pod-is-limited \
  story4-backend-per-node) multinet-three-networks

# Each scenario's report is in target/demo/NAME.json and .html; all are shown, also when one fails.
# The executables are not those of `make build`: the kernel does the work, and they are compiled in less than half the
# time. With --workspace they have the features of those that tests are built with, and `make test` builds none again.
# A measurement that does not hold is made again, twice at most: a busy machine spoils some. Reports list each attempt.
demo: dependencies
	cargo build --locked --workspace --bin bandwidth --bin netqos --bin netqos-agent --bin netqos-multinet
	@mkdir -p target/demo
	@failed=; for name in $(DEMOS); do \
	  echo; echo "=== $$name"; \
	  $(CARGO_TARGET_DIR)/debug/netqos lab run examples/$$name --attempts 3 \
	    --report-json target/demo/$$name.json --report-html target/demo/$$name.html \
	    || failed="$$failed $$name"; \
	done; \
	cp target/demo/iperf-slow.json target/demo/report.json; \
	cp target/demo/iperf-slow.html target/demo/report.html; \
	echo; if [ -n "$$failed" ]; then echo "did not hold:$$failed"; exit 1; fi; \
	echo "all held; pages with courses over time are in target/demo"

# That generated files are fresh is a test, too.
test: dependencies
	scripts/test

# The test programs `long`: run before an issue is resolved.
test-long: dependencies
	scripts/test --long

# ARGS are the command's: --only, --list, --pods, -o json. With --only it leaves out test-multus.
test-cluster: image
	@scripts/test-cluster $(ARGS)

test-installations: image
	@scripts/test-installations

test-multus: dependencies
	@scripts/test-multus

# ARGS are the command's: --only, --list.
test-kernels: build
	@cargo build --quiet --locked --workspace --bin test-kernels
	@$(CARGO_TARGET_DIR)/debug/test-kernels $(ARGS)

lint: dependencies
	scripts/count-lines --check
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --test long -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features -- -D warnings

deny: dependencies
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny@0.20.2
	cargo deny --locked check bans licenses sources

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

# Nothing else should run meanwhile: about a quarter of an hour for the plugin, for classes, for a cluster and for
# several networks each, half an hour for rules. Multus is built for it, once.
bench: build
	cargo build --release --locked --target $(TARGET) -p netqos-xtask
	@cp -u $(CARGO_TARGET_DIR)/$(TARGET)/release/measure $(DIST)/
	$(CARGO_TARGET_DIR)/$(TARGET)/release/netqos-xtask bench
	$(CARGO_TARGET_DIR)/$(TARGET)/release/netqos-xtask bench-rules --rates
	$(CARGO_TARGET_DIR)/$(TARGET)/release/netqos-xtask bench-classes
	$(CARGO_TARGET_DIR)/$(TARGET)/release/netqos-xtask bench-cluster
	$(CARGO_TARGET_DIR)/$(TARGET)/release/netqos-xtask bench-multinet

# What is in it: deploy/Containerfile. Its name is the one that the chart pulls, or IMAGE=NAME:TAG.
.PHONY: image
image: build
	@scripts/image

clean:
	cargo clean
