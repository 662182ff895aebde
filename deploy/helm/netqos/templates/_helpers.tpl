{{- /* Labels of everything. One installation serves a cluster, so names are fixed. */ -}}
{{- define "netqos.labels" -}}
app.kubernetes.io/name: netqos
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "netqos.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What the agent may. Not `privileged`: all devices and the whole of /proc/sys would come with
it. Without `enterPods`, what is done inside of pods' network namespaces is left out: see
docs/install.md. */ -}}
{{- define "netqos.agentSecurity" -}}
privileged: false
readOnlyRootFilesystem: true
runAsUser: 0
capabilities:
  drop: [ALL]
  add:
  # Links, qdiscs, filters.
  - NET_ADMIN
  # Programs and their maps; a verifier that lets them compare pointers.
  - BPF
  - PERFMON
  {{- if or (eq .Values.agent.classBackend "tc") (has "tc" .Values.agent.classBackends) }}
  # The socket by which iptables asks for the number of an ipset.
  - NET_RAW
  {{- end }}
  {{- if .Values.agent.enterPods }}
  # Entering network namespaces, and opening those that are named by a process of the node.
  - SYS_ADMIN
  - SYS_PTRACE
  {{- end }}
seccompProfile:
  type: RuntimeDefault
{{ include "netqos.nodeFiles" . }}
{{- end }}

{{- /* The profiles that runtimes give to containers by default keep them from files of the node, from
bpffs and from other processes' namespaces. */ -}}
{{- define "netqos.nodeFiles" -}}
appArmorProfile:
  type: Unconfined
seLinuxOptions:
  type: spc_t
  level: s0
{{- end }}

{{- define "netqos.agentMounts" -}}
- name: run
  mountPath: /run/netqos
- name: bpf
  mountPath: /sys/fs/bpf
- name: state
  mountPath: /var/lib/netqos
{{- if and .Values.multinet.enabled (not .Values.leaving) }}
# From these records netqos-multinet executes plugins as root on the node; the agent only reads them.
- name: multinet
  mountPath: /var/lib/netqos/multinet
  readOnly: true
# The devices that the kubelet gave to pods.
- name: pod-resources
  mountPath: /var/lib/kubelet/pod-resources
  readOnly: true
# The list of netqos-multinet, and that of the default network, for `netqos check`. It has the limits that no agent can
# lift.
- name: cni-conf
  mountPath: {{ .Values.multinet.configDirectory }}
  readOnly: true
{{- end }}
- name: cni-cache
  mountPath: {{ .Values.agent.cniCache }}
  readOnly: true
- name: cgroup
  mountPath: /sys/fs/cgroup
  mountPropagation: HostToContainer
  readOnly: true
# Where another agent may say how lines are shared.
- name: koordinator
  mountPath: /host/koordinator
  readOnly: true
{{- if or (eq .Values.agent.classBackend "terway-qos") (has "terway-qos" .Values.agent.classBackends) }}
# What the backend terway-qos writes, and where.
- name: koordinator
  mountPath: /var/run/koordinator
- name: terway
  mountPath: /var/lib/terway
{{- end }}
{{- if or (eq .Values.agent.classBackend "tc") (has "tc" .Values.agent.classBackends) }}
# By which iptables of the node wait for these, and these for them.
- name: xtables-lock
  mountPath: /run/xtables.lock
{{- end }}
# Those of pods that come later, too; under both names that runtimes write.
- name: netns
  mountPath: /run/netns
  mountPropagation: HostToContainer
- name: netns
  mountPath: /var/run/netns
  mountPropagation: HostToContainer
{{- end }}
