# The CNI plugin: a pod of 10 Mbit/s in each direction is added, checked, measured and deleted.
#
# attach=bridge|ptp|macvlan|ipvlan|vlan  the plugin before it
# egress=pod|ifb, hook=auto|tcx|…        its configuration
# family=6                               IPv6
# check=yes                              also `netqos check`, and STATUS of the plugin

# The configuration of the pods' network.
network() {
  local ipam subnet=10.85.0.0/24 gateway=10.85.0.1 plugin options=
  [ "$family" != 6 ] || { subnet=fd00:85::/64 gateway=fd00:85::1; }
  ipam='"ipam": {"type": "host-local", "subnet": "'$subnet'"}'
  case ${attach:-bridge} in
    bridge) plugin='"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": false' ;;
    ptp) plugin='"type": "ptp"' ;;
    macvlan) plugin='"type": "macvlan", "master": "up0", "mode": "bridge"' ;;
    ipvlan) plugin='"type": "ipvlan", "master": "up0"' ;;
    vlan) plugin='"type": "vlan", "master": "up0", "vlanId": 5' ;;
  esac
  [ -z "$egress" ] || options="$options, \"egress\": \"$egress\""
  [ -z "$hook" ] || options="$options, \"hook\": \"$hook\""
  mkdir -p /etc/cni/net.d
  cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {$plugin, $ipam},
  {"type": "bandwidth", "capabilities": {"bandwidth": true, "io.kubernetes.cri.pod-annotations": true}$options}]}
END
}

# A link to a host outside, for pods that are on the host's link: prints that host's address.
outside() {
  local address=10.85.0.254/24 link=peer0
  [ "$family" != 6 ] || address=fd00:85::fe/64
  ip netns add outside
  ip link add up0 type veth peer name peer0 netns outside
  ip link set up0 up
  ip -n outside link set peer0 up
  if [ "$attach" = vlan ]; then
    ip -n outside link add link peer0 name peer0.5 type vlan id 5
    ip -n outside link set peer0.5 up
    link=peer0.5
  fi
  ip -n outside address add $address dev $link nodad
  echo ${address%/*}
}

cni() { netqos pod "$1" -f /tmp/pod.yaml --bin-dir /bin --bin-dir /usr/lib/cni; }

# The plugin says by itself whether it can serve: STATUS of CNI 1.1.
cni_status() {
  echo '{"cniVersion": "1.1.0", "name": "pods", "type": "bandwidth"'"${egress:+, \"egress\": \"$egress\"}"'}' |
    CNI_COMMAND=STATUS CNI_PATH=/bin bandwidth
}

what_is_missing() {
  report_check
  observe hook "$hook"
  cni_status >/tmp/out 2>&1
  observe status "$? $(one_line </tmp/out)"
}

plugin() {
  local peer before after code pod
  ip link set lo up
  network
  cat >/tmp/pod.yaml <<END
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations: {kubernetes.io/ingress-bandwidth: 10M, kubernetes.io/egress-bandwidth: 10M}
spec: {containers: [{name: main, image: pause}]}
END
  [ "$check" != yes ] || what_is_missing
  case ${attach:-bridge} in bridge | ptp) ;; *) peer=$(outside) ;; esac
  # The bridge stays when its last pod goes; so it is there before.
  [ "${attach:-bridge}" != bridge ] || ip link add pods0 type bridge
  inventory >/tmp/before
  cni add >/tmp/add 2>/tmp/said
  code=$?
  observe add_code $code
  observe said "$(one_line </tmp/said)"
  if [ $code = 0 ]; then
    pod=$(ip netns list | sed -n 's/^\([^ ]*pod[^ ]*\).*/\1/p')
    observe check_works "$(cni check >/tmp/out 2>&1; echo $?) $(one_line </tmp/out)"
    measure_pod "$pod" "$peer"
    cni del >/tmp/out 2>&1
    observe del "$? $(one_line </tmp/out)"
  fi
  inventory >/tmp/after
  # Kept until the node reboots, as docs/bandwidth-plugin.md says: programs and maps, but no links of them.
  observe left "$(diff /tmp/before /tmp/after | grep '^[+>]' | grep -v '^+++' | one_line)"
}

# measure_pod NAMESPACE PEER: without a peer the host measures.
measure_pod() {
  local address
  if [ -n "$2" ]; then
    serve outside
    await 5 ip netns exec "$1" netqos traffic latency "$2" -t 100ms
    observe to_pod "$(in_netns "$1" goodput "$2" -R -t 3s)"
    observe from_pod "$(in_netns "$1" goodput "$2" -t 3s)"
    return
  fi
  serve "$1"
  address=$(ip -n "$1" -o address show dev eth0 scope global | awk '{ split($4, it, "/"); print it[1]; exit }')
  await 5 netqos traffic latency "$address" -t 100ms
  observe to_pod "$(goodput "$address" -t 3s)"
  observe from_pod "$(goodput "$address" -R -t 3s)"
}
