//! Pods as network namespaces, made by real CNI plugins from ordinary Kubernetes YAML, and measured
