//! What netqos expects of an API server. Each behaviour is tried on this crate's server; and all of
//! them on a real one, where the environment names one, so that this crate's stays honest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod environment;
mod setting;
mod webhook;

use setting::{on_a_real_server, on_the_fixture};

macro_rules! behaviours {
    ($($file:ident { $($name:ident),+ $(,)? })+) => {
        $(mod $file;)+

        mod fixture {
            $(mod $file {
                $(#[test]
                fn $name() {
                    crate::on_the_fixture(async |setting| crate::$file::$name(setting).await);
                })+
            })+
        }

        #[test]
        fn a_real_api_server_behaves_the_same() {
            on_a_real_server(async |suite| {
                $($(suite
                    .run(stringify!($name), async |setting| $file::$name(setting).await)
                    .await;)+)+
            });
        }
    };
}

behaviours! {
    admitting {
        a_webhook_that_refuses_is_the_answer,
        what_a_webhook_changes_is_kept,
        what_a_webhook_warns_of_is_passed_on,
        who_does_not_answer_is_passed_over_where_he_says_so,
    }
    applying {
        two_managers_of_one_list_merge_by_key,
        a_field_of_another_manager_is_a_conflict_unless_forced,
        what_a_manager_applies_no_more_goes,
        what_two_managers_apply_goes_with_the_last,
        applying_the_status_leaves_the_rest,
        applying_creates_what_is_not_there,
        applying_the_same_again_changes_nothing,
        an_update_takes_a_field_over,
    }
    definitions {
        what_breaks_the_schema_is_refused_with_its_field,
        what_breaks_a_rule_is_refused_with_its_field,
        a_rule_sees_what_was_before,
        unknown_fields_are_dropped_and_defaults_filled_in,
        strict_validation_refuses_unknown_fields,
        a_definition_that_goes_takes_its_objects_along,
        each_version_is_served_as_itself,
        the_definition_of_networkqos_is_served,
        defaults_of_our_definitions_are_filled_in,
    }
    deleting {
        a_finalizer_holds_an_object,
        nothing_new_may_hold_what_is_going,
        preconditions_are_kept,
        a_collection_is_deleted_by_selector,
        a_pod_on_a_node_waits_for_its_kubelet,
    }
    discovering {
        a_client_finds_every_resource,
        a_path_behind_which_nothing_is_is_not_found,
    }
    listing {
        pages_are_of_one_state,
        a_list_of_any_state_has_no_pages,
        selectors_choose,
        a_field_that_cannot_be_selected_by_is_refused,
        metadata_alone_can_be_asked_for,
        a_version_of_the_future_is_refused,
    }
    patching {
        merge_patches_merge,
        json_patches_are_all_or_nothing,
        strategic_patches_know_the_keys_of_lists,
        a_patch_of_a_stale_version_is_a_conflict,
    }
    pods {
        a_pod_is_bound_once,
        an_eviction_asks_the_budget,
        the_events_of_both_groups_are_the_same,
    }
    policing {
        a_policy_holds_who_writes_to_what_its_token_says,
        a_policy_that_cannot_be_evaluated_denies_unless_it_says_otherwise,
        a_binding_that_warns_hides_none_that_denies,
    }
    watching {
        a_watch_tells_what_happens_after_its_version,
        a_watch_from_nowhere_begins_with_what_is_there,
        what_moves_into_a_selector_is_added_and_out_of_it_deleted,
        every_write_is_one_event,
        bookmarks_say_how_far_a_watch_got,
        a_streaming_list_ends_with_a_bookmark,
        a_watch_of_metadata_tells_no_more,
    }
    writing {
        a_new_object_gets_identity_time_and_version,
        a_name_is_taken_once,
        a_name_can_be_completed,
        a_stale_write_is_a_conflict,
        a_write_that_changes_nothing_gives_no_new_version,
        what_is_not_there_is_not_found,
        the_generation_counts_what_is_wanted,
        the_status_is_written_by_itself,
        a_dry_run_writes_nothing,
        what_contradicts_its_path_is_refused,
        another_type_is_refused,
        labels_have_a_form,
    }
}
