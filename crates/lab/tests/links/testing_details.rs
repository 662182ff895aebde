//! The "Testing Details" of the proposal (OKEP-4380), bullet by bullet, for IPv4 and IPv6: pods made
//! by real CNI plugins, the real agent, NetworkQoS objects created and deleted while it runs.
//!
//! The cases of destination pods are in `to_pods`, those of host-networked destinations, which are
//! told by CIDR, in `to_cidrs`; `marks` checks them by DSCP, `bandwidth` by the rate.

mod bandwidth;
mod case;
mod eyes;
mod marks;
mod stage;
mod the_agent_goes_with_the_lab;
mod to_cidrs;
mod to_pods;
