# Enters the cgroups of a node, makes its namespaces, and executes $1 as their first process.
set -eu

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  echo "this machine has cgroup v2 alone; nodes need v1 hierarchies" >&2
  exit 1
fi
hierarchies=
for hierarchy in /sys/fs/cgroup/*/; do
  hierarchy=${hierarchy%/}
  [ ! -L "$hierarchy" ] || continue
  hierarchies="$hierarchies ${hierarchy##*/}"
  mkdir -p "$hierarchy/$CGROUP"
  if [ -e "$hierarchy/cpuset.cpus" ]; then
    for file in cpuset.cpus cpuset.mems; do
      for cgroup in "${CGROUP%/*}" "$CGROUP"; do
        cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
      done
    done
  fi
  echo $$ >"$hierarchy/$CGROUP/cgroup.procs"
done
export HIERARCHIES="$hierarchies"
exec setpriv --pdeathsig KILL unshare --cgroup --net --mount --pid --ipc --uts --propagation private \
  --fork --kill-child=KILL sh -c "$1"
