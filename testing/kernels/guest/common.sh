# What tests share.

# busybox prefers its own applets to programs of these names.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }
modprobe() { /sbin/modprobe "$@"; }

# observe NAME [VALUE]: says it to the judge.
observe() { echo "@ $*"; }

# Prints standard input as one line.
one_line() { tr -s '\n\t ' ' '; }

# await SECONDS COMMAND…: true once the command is.
await() {
  local until=$(($(seconds) + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $(seconds) -lt $until ] || return 1
    sleep 0.1
  done
}

# Seconds since this machine booted.
seconds() { cut -d . -f 1 /proc/uptime; }

# goodput ARGUMENTS…: bit/s of a TCP test.
goodput() { netqos traffic tcp "$@" -q -o json | sed -n 's/.*"bitsPerSecond": \([0-9]*\).*/\1/p'; }

# p99 ARGUMENTS…: nanoseconds, of round trips.
p99() { netqos traffic latency "$@" -q -o json | sed -n 's/.*"p99Nanos": \([0-9]*\).*/\1/p'; }

# in_netns NAME COMMAND…: also of functions of these files.
in_netns() {
  local name=$1
  shift
  ip netns exec "$name" sh -c 'for file in /guest/*.sh; do . "$file"; done; "$@"' sh "$@"
}

# serve NAMESPACE: answers the tests of `netqos traffic` there.
serve() {
  ip netns exec "$1" netqos traffic serve >/dev/null 2>&1 &
}
# The same of the host.
serve_here() { netqos traffic serve >/dev/null 2>&1 & }

# Says what `netqos check` prints.
report_check() {
  netqos check -o json >/tmp/check
  observe check_code $?
  observe check "$(one_line </tmp/check)"
}

# Links, records, pins, chains and ipsets of netqos that are on this machine.
inventory() {
  ip -o link show | awk '{ print "link", $2 }'
  find /run/netqos/attachments /run/netqos/pods -type f ! -name '*lock*' 2>/dev/null
  find /sys/fs/bpf -path '*links*' -type f 2>/dev/null
  find /run/netns -type f 2>/dev/null
  nft list tables 2>/dev/null
}
