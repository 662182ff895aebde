//! The plugin `bandwidth` as a runtime meets it: an executable, an environment, standard input and
//! output, and what the kernel holds afterwards. Where the well-known plugin is installed it gets
//! the same calls, and what it answers is what is expected.

mod calls;
mod kernel;

mod a_backstop_behind_the_redirect;
mod a_refusal_is_remembered;
mod a_second_interface_on_the_same_network;
mod add_is_idempotent;
mod another_build_takes_over;
mod bad_input_changes_nothing;
mod bands_have_room_for_what_may_wait;
mod behind_bridge_and_ptp;
mod check_notices_every_missing_or_changed_piece;
mod configuration_becomes_kernel_state;
mod del_restores_the_interface_while_it_lives;
mod failed_add_leaves_nothing_behind;
mod gc_removes_only_what_is_stale_of_its_network;
mod killed_at_any_moment_it_is_completed_or_undone;
mod lives_beside_others;
mod long_names;
mod macvlan_pods;
mod many_at_once;
mod on_a_kernel_that_lacks_something;
mod others_have_our_preference;
mod pods_of_the_original_plugin;
mod programs_are_loaded_once;
mod results_are_those_of_the_original;
mod status_says_what_is_lacking;
mod the_largest_rate_is_kept;
mod the_pod_is_written_down;
mod versions_and_environment;
mod without_bpf;
