//! The webhook as it is: asked by an API server, over TLS, with the certificate that it keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stage;

mod a_bad_annotation_is_a_warning;
mod an_object_that_asks_for_too_much_is_refused;
mod its_certificate_is_renewed_and_nothing_is_missed;
mod nad_without_permission_is_a_warning;
mod namespaces_get_their_default;
mod nobody_waits_for_who_is_away;
mod shares_that_no_line_could_keep_are_refused;
mod what_is_missing_is_filled_in;
