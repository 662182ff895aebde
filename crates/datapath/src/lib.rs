//! Holds a pod's interfaces to their limits: plans what the kernel should hold, makes it, reads it back
