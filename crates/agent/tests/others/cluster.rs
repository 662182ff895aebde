//! The agent on a cluster: a process, an API server, pods with interfaces, and what is seen on the
//! wire.
//!
//! The agent reaches the API server by a proxy, which has faults and a record of requests.

mod image;

mod a_clock_that_jumps_changes_nothing;
mod a_pod_that_goes_before_it_is_enforced_leaves_nothing;
mod a_rule_waits_for_its_peers;
mod an_object_that_cannot_be_read_stops_no_other;
mod beside_another_one_it_refuses;
mod it_asks_no_more_than_it_has_to;
mod it_hears_of_its_own_pods_and_peers_only;
mod it_tells_what_is_in_force;
mod lines_are_left_to_koordlet;
mod manifests;
mod nads_that_the_watch_lacks;
mod network_status_is_written;
mod the_nodes_lines_are_as_its_node_slo_says;
mod under_a_name_that_is_no_nodes_nothing_changes;
mod versions_differ;
mod what_its_manifests_give_it_is_enough;
mod what_others_enforce_is_left_to_them;
mod what_the_cluster_says_is_in_force;
mod whatever_the_server_does_nothing_is_lost;
mod without_the_server_what_was_known_stays;

use netqos_testkit::agent::{controller, stage, world};
