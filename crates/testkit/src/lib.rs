//! What the end-to-end tests stand on: a node of their own, pods, foreign programs, assertions on the kernel
