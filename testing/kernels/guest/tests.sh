# Tests that are netqos' own commands.

# All that each kernel can load of netqos, and what it has besides; conntrack=no without nf_conntrack.
programs() {
  # As kube-proxy's rules do.
  [ "$conntrack" = no ] || modprobe nf_conntrack
  netqos check -o json
}

# An example of netqos holds: scenario=NAME.
scenario() {
  ip link set lo up
  netqos lab run "/examples/$scenario" --quiet 2>&1
}

# Tests of the workspace: package=PACKAGE target=TARGET, and only=SUBSTRING[,…] of their names.
tests_of_target() {
  ip link set lo up
  mkdir -p /var/run /run/netns
  modprobe tun
  report_check
  export NETQOS_REQUIRE_ROOT=1 NETQOS_TEST_PLUGIN=/bin/bandwidth NETQOS_TEST_AGENT=/bin/netqos-agent NETQOS_HIGHEST_RATE=20000000 RUST_BACKTRACE=1
  tests --test-threads=1 --show-output $(echo "$only" | tr , ' ') 2>&1
}
