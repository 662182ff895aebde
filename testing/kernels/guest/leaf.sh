# Two flows of one class, and the round trips of a sparse flow beside them, with netqos' leaf and without its fq_codel: what
# docs/classes.md says of it.

# bulk_class: the class of the best-effort flows that take much, and the qdisc below it.
bulk_class() { tc qdisc show dev $uplink | sed -n 's/^qdisc tbf \([0-9a-f]*\): parent \(6e71:[0-9a-f]*\).*/\1 \2/p' | sort -k 2 | tail -n 1; }

# contest NAME: three times, the rates of two flows of which one begins two seconds later, and the p99 of a third that is
# sparse.
contest() {
  local a b c control round
  for control in cubic bbr; do
    for round in 1 2 3; do
      in_netns be goodput 192.0.2.2 -C cubic -t 10s --omit 4s >/tmp/a &
      a=$!
      sleep 2
      in_netns be goodput 192.0.2.2 -C $control -t 10s --omit 2s >/tmp/b &
      b=$!
      sleep 2
      in_netns be p99 192.0.2.2 -t 9s -i 10ms >/tmp/c &
      c=$!
      wait $a $b $c
      observe $1-$control-$round "$(cat /tmp/a /tmp/b /tmp/c | one_line)"
    done
  done
}

leaf() {
  local handle class
  node
  modprobe tcp_bbr
  # Else it would repair the queue.
  kill $agent
  wait $agent
  read -r handle class <<END
$(bulk_class)
END
  observe class "$class $(tc class show dev $uplink | grep "$class " | one_line)"
  observe leaf "$(tc -d qdisc show dev $uplink | grep "parent $handle:1" | one_line)"
  contest fair
  tc qdisc del dev $uplink parent $class
  tc qdisc add dev $uplink parent $class tbf rate 80gbit burst 9238 limit 196608
  contest fifo
  observe tree "$(tc -s qdisc show dev $uplink | one_line)"
  netqos cleanup --yes
}
