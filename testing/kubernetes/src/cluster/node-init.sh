# The first process of a node: makes its file system and network, and keeps containerd, kubelet and kube-proxy running.
set -eu

root=$DIRECTORY/root
mkdir -p "$root" "$DIRECTORY/upper" "$DIRECTORY/work" "$DIRECTORY/containerd"
rm -rf "$DIRECTORY/work/work"
mount -t overlay -o "lowerdir=/,upperdir=$DIRECTORY/upper,workdir=$DIRECTORY/work" node "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t bpf bpf sys/fs/bpf
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
for hierarchy in $HIERARCHIES; do
  mkdir "sys/fs/cgroup/$hierarchy"
  case $hierarchy in
    unified) mount -t cgroup2 cgroup2 sys/fs/cgroup/unified ;;
    systemd) mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd ;;
    *) mount -t cgroup -o "$hierarchy" cgroup "sys/fs/cgroup/$hierarchy" ;;
  esac
done
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p var/lib/containerd opt/programs opt/images opt/cni/bin etc/cni/net.d var/log old
mount --bind "$DIRECTORY/containerd" var/lib/containerd
mount --rbind "$PROGRAMS" opt/programs
mount --bind "$IMAGES" opt/images
# The kubelet would change these for the whole machine.
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  mkdir -p "run/sysctl/${name%/*}"
  cat "proc/sys/$name" >"run/sysctl/$name"
  mount --bind "run/sysctl/$name" "proc/sys/$name"
done
# The newest ones, where they were built; else those of Debian.
for plugin in opt/programs/bandwidth opt/programs/bridge opt/programs/host-local opt/programs/loopback; do
  [ ! -e "$plugin" ] || [ -e "opt/cni/bin/${plugin##*/}" ] || cp "$plugin" opt/cni/bin/
done
for plugin in /usr/lib/cni/*; do
  [ -e "opt/cni/bin/${plugin##*/}" ] || cp "$plugin" opt/cni/bin/
done
cp "$DIRECTORY/pods.conflist" etc/cni/net.d/10-pods.conflist
for file in kubeconfig kubelet.yaml containerd.toml kube-proxy.kubeconfig kube-proxy.yaml; do
  cp "$DIRECTORY/$file" run/
done
pivot_root . old
cd /
umount -l old
# As systemd does: mounts in containers follow those of the node.
mount --make-rshared /
hostname "$NODE"

ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip address add "$ADDRESS/24" dev eth0
ip address add "$ADDRESS6/64" dev eth0 nodad
ip link set eth0 up
ip route add default via "$GATEWAY"
ip route add default via "$GATEWAY6"
printf '%s\n' "$ROUTES" | while read -r route; do
  [ -z "$route" ] || ip route add $route
done
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding

export PATH=/opt/programs:$PATH
keep() {
  name=$1
  shift
  while :; do
    "$@" >>"/var/log/$name" 2>&1 || true
    sleep 0.5
  done
}
keep containerd containerd --config /run/containerd.toml &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
for image in /opt/images/*.tar; do
  ctr --namespace k8s.io images import "$image"
done
keep kubelet kubelet --config=/run/kubelet.yaml --kubeconfig=/run/kubeconfig \
  --hostname-override="$NODE" --node-ip="$ADDRESS,$ADDRESS6" &
keep kube-proxy kube-proxy --config=/run/kube-proxy.yaml &
# Also reaps orphans.
while :; do wait; sleep 1; done
