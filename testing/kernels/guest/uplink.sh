# The uplink of a node of two pods, latency-sensitive and best-effort, that an agent shares: 20 Mbit/s, of which each
# class is guaranteed 6.
#
# kind=veth|card|bond|team|bridge|vlan   the uplink
# preset=KIND[:PARAMETER…]               its root qdisc, if set by hand
# meanwhile=KIND                         the default qdisc when netqos leaves
# backend=kernel|tc                      the class backend
# hook=auto|clsact                       how programs are attached
# flags=FLAG                             more for the agent
# family=6                               IPv6
# measure=no                             leaves out the measurements
# check=yes                              also `netqos check`

TREE_EGRESS=6e71

# The addresses of the node, of the host outside, of the pods' gateway, and the pods' subnet.
node4=192.0.2.1 outside4=192.0.2.2 gateway4=10.85.0.1 pods4=10.85.0.0/24
node6=fd00:2::1 outside6=fd00:2::2 gateway6=fd00:85::1 pods6=fd00:85::/64
# of NAME: such an address, of the family that is tested.
of() { eval echo "\$$1${family:-4}"; }

# port NUMBER: a port of the uplink, and its other end in the namespace outside.
port() {
  ip link add "port$1" type veth peer name "far$1" netns outside
  ip -n outside link set "far$1" up
}

# Makes the uplink, and sets uplink and the links whose qdiscs are compared.
make_uplink() {
  local far=far0 card
  ip netns add outside
  ip -n outside link set lo up
  uplink=port0 links=port0
  case ${kind:-veth} in
    veth) port 0 ;;
    card)
      modprobe virtio_pci
      modprobe virtio_net
      await 10 test -e /sys/class/net/eth1
      ip link set eth1 netns outside
      uplink=eth0 links=eth0 far=eth1
      ip -n outside link set eth1 up
      ;;
    bond | team)
      port 0
      port 1
      uplink=${kind}0 links="${kind}0 port0 port1" far=far
      if [ "$kind" = bond ]; then
        modprobe bonding max_bonds=0
        ip link add bond0 type bond mode balance-rr
      else
        ip link add team0 type team
        teamnl team0 setoption mode roundrobin
      fi
      for it in port0 port1; do ip link set $it master $uplink; done
      for it in port0 port1; do ip link set $it up; done
      ip -n outside link add far type bridge
      for it in far0 far1; do ip -n outside link set $it master far; done
      ;;
    bridge)
      port 0
      ip link add br0 type bridge
      ip link set port0 master br0 up
      uplink=br0 links="br0 port0"
      ;;
    vlan)
      port 0
      ip link set port0 up
      ip link add link port0 name port0.7 type vlan id 7
      ip -n outside link add link far0 name far0.7 type vlan id 7
      uplink=port0.7 links="port0.7 port0" far=far0.7
      ;;
  esac
  ip link set $uplink up
  ip -n outside link set $far up
  ip address add $node4/24 dev $uplink
  ip address add $node6/64 dev $uplink nodad
  ip -n outside address add $outside4/24 dev $far
  ip -n outside address add $outside6/64 dev $far nodad
  ip -n outside route add $(of pods) via $(of node)
  ip route add default via $(of outside)
  await 10 ping -c 1 -W 1 $(of outside)
}

# pod NAME CLASS
class_pod() {
  cat >/etc/objects/$1.yaml <<END
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default, labels: {koordinator.sh/qosClass: $2}}
spec: {nodeName: node, containers: [{name: main, image: pause}]}
END
  ip netns add $1
  netqos pod add -f /etc/objects/$1.yaml --netns /run/netns/$1 --bin-dir /bin --bin-dir /usr/lib/cni >/dev/null ||
    observe pod_failed $1
  # "bridge" gives no default route by itself.
  ip -n $1 route replace default via $(of gateway)
}

classes_of_node() {
  cat >/etc/objects/node.yaml <<END
apiVersion: v1
kind: Node
metadata: {name: node}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config, namespace: koordinator-system}
data:
  system-config: '{"clusterStrategy": {"totalNetworkBandwidth": "20M"}}'
  resource-qos-config: |
    {"clusterStrategy": {
      "lsClass": {"networkQOS": {"enable": true, "ingressRequest": 30, "ingressLimit": 100, "egressRequest": 30, "egressLimit": 100}},
      "beClass": {"networkQOS": {"enable": true, "ingressRequest": 30, "ingressLimit": 100, "egressRequest": 30, "egressLimit": 100}}}}
END
}

# The qdiscs of the uplink and its ports.
qdiscs() {
  local link
  for link in $links; do tc -d qdisc show dev $link; done
}

status_line() { netqos status -o json | one_line; }
# The agent has an outcome for the uplink: it is programmed, or the status says why not.
has_outcome() { status_line | grep -qE '"dividedBy": "[a-z]|"failing": "[^"]'; }
is_programmed() { status_line | grep -q '"dividedBy": "[a-z]'; }

# A node with its uplink, two pods, and an agent.
node() {
  ip link set lo up
  echo 1 >/proc/sys/net/ipv4/ip_forward
  echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
  make_uplink
  [ -z "$preset" ] || tc qdisc replace dev $uplink root $(echo "$preset" | tr : ' ')
  attach=bridge hook= egress= network
  mkdir -p /etc/objects
  class_pod ls LS
  class_pod be BE
  classes_of_node
  serve outside
  qdiscs >/tmp/qdiscs.before
  observe root "$(head -n 1 /tmp/qdiscs.before)"
  netqos-agent --manifests /etc/objects --node node --listen off --hook "${hook:-auto}" \
    --class-backend "${backend:-kernel}" $flags >/tmp/agent.log 2>&1 &
  agent=$!
  await 20 is_programmed || await 5 has_outcome || cat /tmp/agent.log
  # What the first attempt says may be repaired by the second.
  sleep 2
  observe status "$(status_line)"
  observe programmed "$(for link in $links; do
    tc qdisc show dev $link root | grep -q "htb" && echo $link; done | one_line)"
}

# old_packets NAMESPACE: TCP packets that were dropped since their timestamp was older than the last (PAWS).
old_packets() {
  ip netns exec $1 awk '$1 == "TcpExt:" { for (i = 2; i <= NF; i++) if ($i == "PAWSEstab") at = i; else if (at == i) print $i }' \
    /proc/net/netstat
}

# shares NAME [ARGUMENTS]: what both classes get when both want all.
shares() {
  local name=$1 ls be
  shift
  in_netns ls goodput $(of outside) -P 2 -t 5s --omit 2s "$@" >/tmp/ls &
  ls=$!
  in_netns be goodput $(of outside) -P 4 -t 5s --omit 2s "$@" >/tmp/be &
  be=$!
  wait $ls $be
  # Packets that receivers took for old ones: they were overtaken.
  observe ${name}_overtaken "$(old_packets outside) $(old_packets ls) $(old_packets be)"
  observe ${name}_ls "$(cat /tmp/ls)"
  observe ${name}_be "$(cat /tmp/be)"
}

# Stops the agent, removes netqos, and compares the qdiscs.
leave() {
  kill $agent
  wait $agent
  [ -z "$meanwhile" ] || sysctl -qw net.core.default_qdisc=$meanwhile
  netqos cleanup --yes >/tmp/out 2>&1
  observe cleanup "$? $(one_line </tmp/out)"
  qdiscs >/tmp/qdiscs.after
  observe qdiscs "$(diff /tmp/qdiscs.before /tmp/qdiscs.after | grep '^[+-][^+-]' | one_line)"
  observe left "$(inventory | grep -E 'netqos|bwp|classes' | one_line)"
}

uplink() {
  [ "$check" != yes ] || report_check
  node
  if [ "$measure" != no ]; then
    await 5 ip netns exec ls netqos traffic latency $(of outside) -t 100ms
    shares egress
    shares ingress -R
    observe status_after "$(status_line)"
  fi
  leave
  true
}

# The uplink has the qdisc that was found.
restore() {
  measure=no uplink
}
