//! The eBPF programs of netqos, their maps, and how they are loaded, pinned and reached
