//! Traffic and latency meters: TCP and UDP goodput, request/response latency, DSCP seen
