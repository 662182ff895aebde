//! CNI 0.3.0 to 1.1.0: types, the plugin skeleton, the runtime role and the kubelet's role
