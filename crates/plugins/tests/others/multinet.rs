//! The CNI meta plugin `netqos-multinet`, with real delegates in real namespaces.

mod add_makes_all_networks_or_none;
mod calls_are_serial_and_in_order;
mod configurations_on_the_node;
mod del_ends_or_says_what_to_do;
mod del_needs_only_the_record;
mod device_info_files;
mod fixed_limits;
mod fixture;
mod full_disk_leaves_nothing;
mod hand_over;
mod hostile_nads;
mod killed_at_any_moment;
mod mapped_ports_go_with_the_pod;
mod multus_pods;
mod names_of_the_host;
mod other_lists;
mod pod_is_deleted_halfway;
mod recorder;
mod requests_reach_their_network_alone;
mod runtime_without_annotations;
mod status_is_of_default_network;
mod unknown_drivers;
mod what_pods_request;
