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
