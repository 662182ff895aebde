# Packets of a pod in a tunnel over the uplink: of which class does netqos take them to be?
#
# tunnel=vxlan|geneve|ipip|wireguard

# tunnel_end NAMESPACE LOCAL REMOTE INNER PREFIX: its end here or outside.
tunnel_end() {
  local in="ip" key
  [ "$1" = host ] || in="ip -n $1"
  case $tunnel in
    vxlan) $in link add tun0 type vxlan id 7 local $2 remote $3 dstport 4789 ;;
    geneve) $in link add tun0 type geneve id 7 remote $3 ;;
    ipip) $in link add tun0 type ipip local $2 remote $3 ;;
    wireguard)
      $in link add tun0 type wireguard
      ;;
  esac || return
  $in address add $4/24 dev tun0
  $in link set tun0 up
}

# WireGuard needs the keys of both ends.
exchange_keys() {
  local here=/tmp/here there=/tmp/there
  wg genkey >$here
  wg genkey >$there
  wg set tun0 private-key $here listen-port 51820 peer "$(wg pubkey <$there)" \
    allowed-ips 0.0.0.0/0 endpoint 192.0.2.2:51820
  ip netns exec outside wg set tun0 private-key $there listen-port 51820 peer "$(wg pubkey <$here)" \
    allowed-ips 0.0.0.0/0 endpoint 192.0.2.1:51820
}

tunnel() {
  node
  tunnel_end host 192.0.2.1 192.0.2.2 10.86.0.1 || { observe no_tunnel; return; }
  tunnel_end outside 192.0.2.2 192.0.2.1 10.86.0.2
  [ "$tunnel" != wireguard ] || exchange_keys
  ip -n outside route replace 10.85.0.0/24 via 10.86.0.1 dev tun0 $([ $tunnel != ipip ] || echo onlink)
  await 10 ip netns exec ls ping -c 1 -W 1 10.86.0.2
  # The agent finds the tunnel.
  sleep 12
  observe before "$(status_line)"
  observe sent "$(in_netns ls goodput 10.86.0.2 -t 2s)"
  observe between "$(status_line)"
  observe received "$(in_netns ls goodput 10.86.0.2 -R -t 2s)"
  observe after "$(status_line)"
  leave
  true
}
