//! The agent as it is: a process, a folder, pods with interfaces, and what is seen on the wire.

mod cgroup;
mod replaced_rules_are_removed;
mod second_network;
mod service;

mod a_bad_object_leaves_the_others_in_force;
mod a_change_of_the_folder_is_read_whole;
mod a_changed_annotation_takes_effect_live;
mod a_full_run_folder_is_told_of_and_passes;
mod a_network_that_is_not_there_is_told_of;
mod a_network_without_addresses_is_enforced_by_interface;
mod a_plugins_limit_is_taken_over;
mod a_pod_is_found_by_its_cgroup;
mod a_pod_is_found_by_the_hosts_proc;
mod a_pod_is_found_by_what_the_plugin_wrote;
mod a_pod_is_its_sandbox;
mod a_pods_links_are_known_by_index;
mod a_policy_beyond_its_quota_is_not_in_force;
mod a_profile_holds_pods_and_changes_live;
mod a_second_network_has_rules_of_its_own;
mod another_agent_says_by_files_how_lines_are_shared;
mod attachments_go_by_their_records;
mod beside_calico;
mod completed_pod_logs_no_alarm;
mod ingress_bypass;
mod invalid_annotation_keeps_last_limit;
mod it_says_how_things_are;
mod killed_and_started_again_it_takes_over;
mod limit_repair;
mod links_are_counted;
mod networks_of_pods_are_answered;
mod node_problems_pass;
mod pods_are_found_wherever_they_come_from;
mod policy_routing_uplinks;
mod services_are_read_from_the_folder;
mod the_nodes_lines_are_planned;
mod tunnels_are_followed;
mod what_others_took_away_is_put_back;
mod where_inotify_is_used_up_it_looks_from_time_to_time;
mod where_the_node_has_no_bpffs_it_says_so;
mod who_divides_is_chosen;

use netqos_testkit::agent::{config_map, stage};
use netqos_testkit::rules::proxy;
