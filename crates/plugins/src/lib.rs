//! The CNI plugins of netqos, as executables
