# make demo    pods made by real CNI plugins, held to annotations and NetworkQoS, measured
# make test    every test; those that make network namespaces need root, and say so without it
# make lint    formatting, and clippy with warnings as errors, of the fuzz targets too
# make build   static executables for a node, in target/dist
# make bench   the figures of docs/benchmarks.md, -rules.md, -classes.md and -cluster.md, measured again
.PHONY: demo test lint build bench dependencies clean
.DEFAULT_GOAL := build

TARGET := $(shell uname -m)-unknown-linux-musl
DIST := target/dist

dependencies:
	@scripts/install-dependencies

# The plugin by itself, so that no feature that others need comes into it.
build: dependencies
	cargo build --release --locked --target $(TARGET) -p netqos-plugins
	cargo build --release --locked --target $(TARGET) -p netqos-cli -p netqos-agent -p netqos-controller
	@mkdir -p $(DIST)
	@cd target/$(TARGET)/release && cp -u bandwidth netqos netqos-agent netqos-controller $(CURDIR)/$(DIST)/
	@ls -l $(DIST) | awk 'NR > 1 { print "  $(DIST)/" $$NF "  " $$5 " bytes" }'

DEMOS := iperf-slow $(addprefix networkqos-,story1-marks story2-free-is-limited story3-priorities \
  secondary-network ipv6 with-annotations) $(addprefix classes-,story2-offline-yields story3-a-pod-is-limited \
  story4-backend-per-node)

# Each scenario's report is in target/demo/NAME.json and .html; all are shown, also when one fails.
# What a busy machine spoils is measured again, which the reports say.
demo: build
	@mkdir -p target/demo
	@failed=; for name in $(DEMOS); do \
	  echo; echo "=== $$name"; \
	  $(DIST)/netqos lab run examples/$$name --attempts 3 \
	    --report-json target/demo/$$name.json --report-html target/demo/$$name.html \
	    || failed="$$failed $$name"; \
	done; \
	cp target/demo/iperf-slow.json target/demo/report.json; \
	cp target/demo/iperf-slow.html target/demo/report.html; \
	echo; if [ -n "$$failed" ]; then echo "did not hold:$$failed"; exit 1; fi; \
	echo "all held; pages with courses over time are in target/demo"

# That generated files are fresh is a test, too. What fails beside others is tried again by itself.
test: dependencies
	scripts/test

lint: dependencies
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz \
	  --no-default-features -- -D warnings

# Nothing else should run meanwhile: about a quarter of an hour for the plugin, for classes and for a
# cluster each, half an hour for rules.
bench: build
	cargo build --release --locked --target $(TARGET) -p netqos-xtask
	@cp -u target/$(TARGET)/release/measure $(DIST)/
	target/$(TARGET)/release/netqos-xtask bench
	target/$(TARGET)/release/netqos-xtask bench-rules --rates
	target/$(TARGET)/release/netqos-xtask bench-classes
	target/$(TARGET)/release/netqos-xtask bench-cluster

clean:
	cargo clean
