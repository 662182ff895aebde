# A pod whose interface is an end of a netkit pair: its limits, and a rule with a rate, without programs of the pair's
# own and with one.
netkit() {
  ip link set lo up
  if ! ip link add host0 type netkit; then
    observe no_netkit
    return
  fi
  peer=$(ip -o link show host0 | sed -n 's/.*host0@\([^:]*\):.*/\1/p')
  ip netns add a
  ip link set "$peer" netns a name eth0
  ip address add 10.0.0.1/24 dev host0
  ip -n a address add 10.0.0.2/24 dev eth0
  ip link set host0 up
  ip -n a link set eth0 up
  serve_here
  limit_pod && limit_rule && limit_rule_beside_program
}
# The plugin's queues are at the host's end and at the pod's, and packets pass them.
limit_pod() {
  limits='{"ingressRate":8000000,"ingressBurst":800000,"egressRate":8000000,"egressBurst":800000}'
  interfaces='[{"name":"host0"},{"name":"eth0","sandbox":"/run/netns/a"}]'
  result='{"cniVersion":"1.0.0","interfaces":'$interfaces',"ips":[{"address":"10.0.0.2/24","interface":1}]}'
  echo '{"cniVersion":"1.0.0","name":"net","type":"bandwidth",
    "runtimeConfig":{"bandwidth":'"$limits"'},"prevResult":'"$result"'}' |
    CNI_COMMAND=ADD CNI_CONTAINERID=a CNI_NETNS=/run/netns/a CNI_IFNAME=eth0 CNI_PATH=/bin bandwidth || return
  tc qdisc show dev host0 | grep tbf || return
  tc -n a qdisc show dev eth0 | grep tbf || return
  ip netns exec a ping -c 3 10.0.0.1
}
start_agent() {
  netqos-agent --node node1 --manifests /run/objects >/run/agent.log 2>&1 &
  agent=$!
}
has_queue() { ip -o link show type veth | grep " nq"; }
# A rule of a pod without a host's end would have a policer, and no pair.
limit_rule() {
  mkdir -p /run/objects
  cat >/run/objects/all.yaml <<END
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: games, labels: {app: a}}
spec: {nodeName: node1}
status: {podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: qos, namespace: games}
spec: {priority: 1, podSelector: {matchLabels: {app: a}}, egress: [{dscp: 10, bandwidth: {rate: 4000}}]}
END
  mkdir -p /var/lib/cni/results
  echo '{"kind":"cniCacheV1","containerId":"a","config":"","ifName":"eth0","networkName":"net",
    "netns":"/run/netns/a","cniArgs":[["K8S_POD_NAMESPACE","games"],["K8S_POD_NAME","a"]],
    "result":{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24"}]}}' >/var/lib/cni/results/net-a-eth0
  start_agent
  await 60 has_queue
  netqos status
  has_queue || { cat /run/agent.log; return 1; }
  observe queued "$(in_netns a goodput 10.0.0.1 -t 3s)"
}
# What the pod sends passes the program before it comes to the host: the rule is on the pod's side, and has a policer.
limit_rule_beside_program() {
  netkit_program host0 || return
  kill $agent
  wait $agent
  start_agent
  await 60 has_no_queue
  netqos status
  has_no_queue || { cat /run/agent.log; return 1; }
  observe policed "$(in_netns a goodput 10.0.0.1 -t 3s)"
}
has_no_queue() { ! has_queue; }
